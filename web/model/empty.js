/* empty: which pages have nothing to show for a trace, and why, from the answers that they would show. */

const QUESTIONS = {
  operators: [["ops", {by: "name"}]],
  kernels: [["kernels", {by: "name"}]],
  modules: [["modules", {by: "tree"}]],
  stacks: [["stacks", {by: "stack"}]],
  memory: [["memory", {}], ["segments", {by: "pool"}]],
  roofline: [["roofline", {by: "name"}]]
};

/* Map of pages to the reason. A page with one answer that has rows is not empty. */
export async function findEmpty(answers, trace, traces) {
  const empty = new Map();
  for (const [page, questions] of Object.entries(QUESTIONS)) {
    const reasons = [];
    for (const [question, args] of questions) {
      const answer = await answers.ask(trace, question, args).catch((error) => error);
      reasons.push(
          answer.rows                   ? (answer.rows.length ? null : "the trace holds none") :
              answer.code === "no_data" ? answer.message :
                                          null);
    }
    if (reasons.every(Boolean)) empty.set(page, reasons[0]);
  }
  if (traces < 2) empty.set("diff", "one trace is open");
  return empty;
}
