/* analyze: pure functions, a const trace in, a table out. No I/O, no globals, no printing. Public header of the folder:
 * its themes, of which each has a header. */
#ifndef TG_ANALYZE_H
#define TG_ANALYZE_H

#include "analyze/ask.h"
#include "analyze/compare.h"
#include "analyze/merge.h"
#include "analyze/names.h"
#include "analyze/question.h"
#include "analyze/spans.h"
#include "analyze/table.h"

#endif
