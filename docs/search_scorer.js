// The scorer of the site's search: Sphinx's own numbers, but a section with the query as its title comes before all pages that only have its words.
var Scorer = {
  score: (result) => (result[6] === "title" ? 4 * result[4] : result[4]),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
