/* empty: which pages have nothing to show for a trace, and why, from the answers that they would show. */

/* Map of pages to the reason. shows of a page: questions with arguments; with one answer that has rows it is not empty.
 */
export async function findEmpty(answers, trace, traces, pages) {
  const empty = new Map();
  for (const [name, page] of Object.entries(pages)) {
    const reasons = [];
    for (const [question, args] of page.shows ?? []) {
      const answer = await answers.ask(trace, question, args).catch((error) => error);
      reasons.push(
          answer.rows                   ? (answer.rows.length ? null : "the trace holds none") :
              answer.code === "no_data" ? answer.message :
                                          null);
    }
    if (reasons.length && reasons.every(Boolean)) empty.set(name, reasons[0]);
  }
  if (traces < 2) empty.set("diff", "one trace is open");
  return empty;
}
