/* overview: the answer first, then what it rests on. */

import {CODES, PARTS} from "../model/classes.js";
import {duration, number, percent, shorten, size} from "../model/format.js";
import * as State from "../model/state.js";
import {partsView, stepsView} from "../view/charts.js";
import {h} from "../view/dom.js";
import {notesView} from "../view/table.js";

import {later, rankArgs, timelineOf} from "./common.js";
import {poolsOf, snapshotSheet} from "./snapshot.js";

export const title = "Overview";
export const askFacts = (answers, trace) => answers.ask(trace, "overview");

export async function draw(context) {
  return (await poolsOf(context)) ? snapshotSheet(context) : drawRecording(context);
}

function drawRecording(context) {
  const {answers, trace, state} = context, args = rankArgs(state);
  const ask = (question, more = {}) => answers.ask(trace, question, {...args, ...more});
  /* Questions are answered in their order: what takes longest is asked last. */
  const summary = ask("steps", {by: "summary"}), steps = ask("steps"), devices = ask("breakdown", {by: "device", window: "steps"}),
        memory = ask("memory"), ranks = ask("ranks"), phases = ask("phases"), ops = ask("ops", {limit: 8}),
        findings = ask("findings"), kinds = ask("bottleneck"), asked = ask("six_questions");
  return h(
      "div", {class: "sheet"},
      later(
          Promise.all([findings, summary.catch(() => null)]), ([f, s]) => verdict(f, s),
          {id: "verdict", height: 100, waiting: "looking for causes …"}),
      later(
          steps, (table) => stepsChart(table, context),
          {id: "steps", title: "steps", height: 150, quiet: true, href: State.link("ask", {q: "steps"})}),
      h("div", {class: "columns"},
        h("div", {},
          later(
              summary, (table) => parts(table, context),
              {id: "parts", title: "where a step goes", height: 120, quiet: true}),
          later(phases, phaseList, {id: "phases-short", quiet: true}),
          later(
              findings, async (table) => findingList(table, await context.several()),
              {id: "findings-short", title: "findings", height: 60, quiet: true, href: State.link("findings")}),
          later(
              kinds, kindList,
              {id: "kinds", title: "kind of bottleneck", quiet: true, href: State.link("ask", {q: "bottleneck"})}),
          later(
              asked, askedList,
              {id: "asked", title: "six questions", quiet: true, href: State.link("ask", {q: "six_questions"})})),
        h("div", {},
          later(
              devices, (table) => [deviceList(table), notesView(table)], /* of which time these are shares */
              {id: "devices", title: "devices", quiet: true, href: State.link("kernels")}),
          later(memory, memoryList, {id: "memory-short", title: "memory", quiet: true, href: State.link("memory")}),
          later(ranks, (table) => (table.rows.length > 1 ? rankList(table) : null), {id: "ranks-short", quiet: true}),
          later(ops, opsList, {id: "ops-short", quiet: true}))));
}

const UNIT = /(\d) (%|[mun]?s\b|[kMGT]?i?B\b)/g;

const statistic = (table, step) => table?.records().find((row) => row.step === step);

function verdict(findings, summary) {
  const first = findings.records()[0], several = new Set(summary?.records().map((row) => row.rank)).size > 1;
  const medians = summary?.records().filter((row) => row.step === "p50") ?? [];
  const p50 = medians.find((row) => row.rank === first?.rank) ?? medians[0];
  const step =
      !p50 ? "" : `A step${several ? ` of rank ${p50.rank}` : ""} takes ${duration(p50.total_ns)} in the median. `;
  const links = [h("a", {href: State.link("timeline")}, "timeline")];
  let text, second = null;
  if (first) {
    text = `${step}${sentence(first.evidence)}`;
    second = first.saving_ns > 0 ? `${sentence(first.advice)} It ${savingOf(first)} a step.` :
                                   sentence(first.advice);
    links.unshift(h("a", {href: State.link("findings")}, "what to change"));
    if (first.where) links.unshift(h("a", {href: timelineOf(operatorOf(first.where))}, "show me"));
  } else {
    text = `${step}${
        sentence(findings.notes.find((note) => note.startsWith("nothing found")) ?? "Nothing was found to change")}`;
    second = findings.notes.filter((note) => !note.startsWith("nothing found")).join("; ") || null;
  }
  return [
    h("p", {class: "verdict"}, text, second ? h("span", {class: "second"}, second) : null),
    h("p", {class: "verdict-links"}, links)
  ];
}
/* A number and its unit stay on one line. */
const sentence = (text) => (
    text ? (text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".")).replace(UNIT, "$1\u00a0$2") : "");
export const operatorOf = (where) => where.split(" at ")[0].split(",")[0];

function stepsChart(table, context) {
  const rows = table.records();
  if (!rows.length)
    return h("p", {class: "empty"}, "The trace has no steps. Call prof.step() once an iteration when recording.");
  const ordered = rows.map((row) => row.total_ns).sort((a, b) => a - b), median = ordered[ordered.length >> 1];
  const several = new Set(rows.map((row) => row.rank)).size > 1;
  const items =
      rows.map((row) => ({
                 number: several ? `${row.step} (rank ${row.rank})` : row.step,
                 value: row.total_ns,
                 outlier: row.total_ns > 1.5 * median && rows.length > 4,
                 parts: PARTS.map(([column, , cls]) => [cls, row[column] ?? 0]),
                 href: State.link("timeline", {step: row.step, rank: several ? row.rank : context.state.rank}),
               }));
  return stepsView(items, "ns", "steps-chart", table);
}

function parts(summary, context) {
  const p50 = statistic(summary, "p50");
  const mean = statistic(summary, "mean"), several = new Set(summary.records().map((row) => row.rank)).size > 1;
  if (!p50) return h("p", {class: "empty"}, "The trace has no steps.");
  const share = (ns) => (mean.total_ns ? (100 * ns) / mean.total_ns : null);
  const itemsOf = (parts) =>
      parts.filter(([column]) => mean[column] > 0)
          .map(([column, label, cls]) => ({label, cls, value: mean[column], share: share(mean[column])}));
  const hasCode = mean.compiled_ns > 0 || mean.replayed_ns > 0;
  return [
    partsView(itemsOf(PARTS), "ns", mean.total_ns, "parts-bars"),
    hasCode ? partsView(itemsOf(CODES), "ns", mean.total_ns, "code-bars") : null,
    h("p", {class: "notes"},
      `mean of a step${several ? ` of rank ${mean.rank}` : ""} ${duration(mean.total_ns)}; shares are of it. Median ${
          duration(p50.total_ns)}, 90 % within ${duration(statistic(summary, "p90").total_ns)}`)
  ];
}

/* Of a program that trains: else nearly all is forward. */
function phaseList(table) {
  const rows = table.records(), several = new Set(rows.map((row) => row.rank)).size > 1;
  const shown = rows.filter((row) => row.host_ns > 0 && (!several || row.rank === rows[0].rank));
  if (!shown.some((row) => row.phase === "backward" || row.phase === "optimizer")) return null;
  return [
    h("h2", {}, h("a", {href: State.link("ask", {q: "phases"})},
                  `phases, host time of a step${several ? ` of rank ${rows[0].rank}` : ""}`)),
    factTable(shown.map((row) => [row.phase === "other" ? "the rest" : row.phase, duration(row.host_ns), percent(row.share_pct)]))
  ];
}
/* The rows of one rank, the largest kind with its arithmetic. */
const ofFirstRank = (table) => table.records().filter((row, i, rows) => row.rank === rows[0].rank);
function kindList(table) {
  const rows = ofFirstRank(table), shown = rows.filter((row, i) => !i || row.share_pct > 0);
  if (!rows.length) return null;
  return [
    factTable(shown.map((row) => [h("span", {title: row.evidence}, row.kind), duration(row.step_ns), percent(row.share_pct)])),
    h("p", {class: "notes"}, sentence(rows[0].evidence))
  ];
}
function askedList(table) {
  const value = (row) => (row.value === null ? "" : row.unit === "%" ? percent(row.value) : `${number(row.value)} ${row.unit}`);
  return factTable(ofFirstRank(table).map(
      (row) =>
          [h("span", {title: row.evidence}, row.question),
           h("span", {class: row.is_well === false ? "grade medium" : ""}, row.answer), value(row)]));
}
function findingList(table, several) {
  if (!table.rows.length)
    return h("p", {class: "muted"}, table.notes.find((note) => note.startsWith("nothing found")) ?? "nothing found");
  const place = (row) => (row.file ? `${row.file.split("/").pop()}:${row.line}` : shorten(row.where ?? "", 40));
  const line = (row) =>
      h("tr", {}, h("td", {class: `grade ${row.severity}`}, row.severity),
        h("td", {class: "nowrap"}, h("a", {href: State.link("findings")}, row.cause),
          several ? h("span", {class: "muted"}, ` rank\u00a0${row.rank}`) : null),
        h("td", {class: "muted place long", title: row.where}, place(row)),
        h("td", {class: "num"}, together(costOf(row))), h("td", {class: "num"}, together(savingOf(row))));
  const more = table.rows.length - 3;
  return [
    h("table", {class: "facts-table"}, table.records().slice(0, 3).map(line)),
    more > 0 ? h("p", {}, h("a", {href: State.link("findings")}, `${more} more`)) : null
  ];
}
/* What a finding costs and what is to be won are two figures. */
export const costOf = (row) =>
    row.cost_ns === null ? percent(row.share_pct) : `costs ${duration(row.cost_ns)}, ${percent(row.share_pct)}`;
export function savingOf(row) {
  if (!(row.saving_ns > 0)) return "";
  if (row.saving_low_ns == null) return `saves ${duration(row.saving_ns)}`;
  const high = duration(row.saving_high_ns);
  if (row.saving_low_ns > 0) return `saves ${duration(row.saving_low_ns)} to ${high}`;
  return row.saving_low_ns < 0 ? `saves up to ${high}, or costs up to ${duration(-row.saving_low_ns)}` : `saves up to ${high}`;
}
const together = (v) => (typeof v === "string" ? v.replace(UNIT, "$1\u00a0$2") : v);
const factTable = (rows) =>
    h("table", {class: "facts-table"},
      rows.map(
          ([label, ...values]) =>
              h("tr", {}, h("td", {class: typeof label === "string" ? "first" : "long", title: label.title}, label),
                values.map((v) => h("td", {class: "num"}, together(v))))));
function deviceList(table) {
  const several = new Set(table.records().map((row) => row.rank)).size > 1;
  const nameOf =
      ({rank,
        device}) => [several || device === null ? `rank ${rank}` : null, device === null ? null : `device ${device}`]
                        .filter(Boolean)
                        .join(" · ");
  return factTable(table.records().map(
      (row) =>
          [nameOf(row), `${percent(row.busy_pct)} busy`, `${percent(row.compute_pct)} computing`,
           h("a", {href: State.link("ask", {q: "gaps", "a.by": "cause"}), title: "what the device waits for"},
             `${percent(row.idle_pct)} idle`)]));
}
function memoryList(table) {
  const several = new Set(table.records().map((row) => row.rank)).size > 1;
  return factTable(table.records().map(
      (row) =>
          [several ? `rank ${row.rank} · ${row.device}` : row.device,
           `peak ${size(row.peak_allocated_bytes ?? row.peak_net_bytes)} ${
               row.peak_allocated_bytes === null ? "of blocks seen" : "allocated"}`,
           `${number(row.events)} events`]));
}
function rankList(table) {
  const doubt = table.notes.find((note) => note.includes("waits are not to be trusted"));
  return [
    h("h2", {}, h("a", {href: State.link("ranks")}, "ranks")),
    factTable(table.records().slice(0, 8).map(
        (row) =>
            [`rank ${row.rank}`, `step ${duration(row.step_ns)}`, doubt ? "" : `waits ${duration(row.wait_ns)}`,
             row.straggler_pct && !doubt ? `costs others ${percent(row.straggler_pct)}` : ""])),
    doubt ? h("p", {class: "notes"}, doubt) : null
  ];
}
/* In the order of the question: by own time on the device where there is any, else on the host. */
function opsList(table) {
  const rows = table.records(), device = rows.some((row) => row.self_device_ns > 0), at = device ? "device" : "cpu";
  return [
    h("h2", {}, h("a", {href: State.link("operators")}, `operators, own time on the ${device ? "device" : "host"}`)),
    factTable(rows.map(
        (row) =>
            [h("a", {class: "mono", href: timelineOf(row.name), title: row.name}, row.name), number(row.calls),
             duration(row[`self_${at}_ns`]), percent(row[`self_${at}_pct`])]))
  ];
}
