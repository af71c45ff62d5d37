/* classes: the kinds of work, and the colour each has on every page. Colours come from the --c-… values of style.css,
 * so that both themes have theirs. */

/* Parts of a step (question steps), as the report has them, and the class whose colour each has. They add up. */
export const PARTS = [
  ["kernel_ns", "kernels", "compute"],
  ["memcpy_ns", "copies", "copy"],
  ["memset_ns", "memsets", "memset"],
  ["communication_ns", "communication", "communication"],
  ["runtime_ns", "runtime calls", "launch"],
  ["dataloader_ns", "data loader", "data"],
  ["operator_ns", "CPU operators", "operator"],
  ["bare_ns", "no operator", "other"],
];

/* The same time by what ran, of a program that has compiled code or replays graphs. */
export const CODES = [
  ["compiled_ns", "compiled code", "compute"],
  ["replayed_ns", "replayed graphs", "communication"],
  ["eager_ns", "eager", "operator"],
];

export const MEMORY_PARTS = [
  ["parameter", "compute"],
  ["gradient", "communication"],
  ["optimizer_state", "optimizer"],
  ["buffer", "launch"],
  ["input", "data"],
  ["activation", "operator"],
  ["temporary", "python"],
  ["autograd_detail", "copy"],
  ["communication", "wait"],
  ["unknown", "other"],
];

export const cssColor = (cls) => `var(--c-${cls})`;

/* "#rrggbb" or "rgb(…)" of a class as the page shows it now. */
export function resolveColors(element, names) {
  const style = getComputedStyle(element);
  const probe = document.createElement("span");
  element.append(probe);
  const out = names.map((name) => {
    probe.style.color = `var(--c-${name})`;
    const m = /(\d+),?\s*(\d+),?\s*(\d+)/.exec(getComputedStyle(probe).color);
    return m ? [Number(m[1]), Number(m[2]), Number(m[3])] : [128, 128, 128];
  });
  probe.remove();
  return {colors: out, text: style.color};
}
