/* layout: which lines the timeline has, one below the other. Pure: from the tracks and what is pinned, hidden or
 * folded to a list of lines with their place. */

export const LINE = 18, WIDE_LINE = 24, DEEP_LINE = 4, HEAD = 22, GAP = 6, DEEP_FROM = 24, COUNTER_LINE = 36;

/* settings: {folded: Set of keys, pinned: Set of track numbers, hidden: Set of track numbers, wide}
 * Returns {lines, height}; a line: {kind: "head" | "row", y, height, key, text, track, row, depth, lane, folded, first}
 * first: the first row of its track, which carries the name. */
export function layOut(tracks, ranks, settings) {
  const lines = [];
  let y = 0;
  const head = (key, text, count) => {
    lines.push({kind: "head", y, height: HEAD, key, text, count, folded: settings.folded.has(key)});
    y += HEAD;
  };
  const shown = tracks.filter((track) => !settings.hidden.has(track.track) && rowsOf(track) > 0);
  const pinned = shown.filter((track) => settings.pinned.has(track.track));
  if (pinned.length) {
    head("pinned", "pinned", pinned.length);
    for (const track of pinned) y = putTrack(lines, track, y, settings, "pinned");
  }
  for (const [key, text, members] of groups(shown.filter((track) => !settings.pinned.has(track.track)), ranks)) {
    head(key, text, members.length);
    if (settings.folded.has(key)) {
      /* folded: one thin line a track, so that what happens there still shows */
      for (const track of members.slice(0, 8)) {
        lines.push(
            {kind: "row", y, height: DEEP_LINE, track, row: track.row, depth: 0, lane: 0, first: false, thin: true});
        y += DEEP_LINE;
      }
      y += GAP;
      continue;
    }
    for (const track of members) y = putTrack(lines, track, y, settings, key);
  }
  return {lines, height: y};
}

export const rowsOf = (track) => track.lanes.reduce((sum, depth) => sum + depth, 0);

/* One group a rank and process; the words of its head. */
function groups(tracks, ranks) {
  const out = new Map();
  for (const track of tracks) {
    const device = track.kind === "device";
    const key = `${track.rank}/${device ? `device ${track.device}` : track.process}`;
    if (!out.has(key)) out.set(key, [key, title(track, ranks, device), []]);
    out.get(key)[2].push(track);
  }
  return out.values();
}
function title(track, ranks, device) {
  const rank = ranks.length > 1 ? `rank ${ranks[track.rank]?.number ?? track.rank} · ` : "";
  return rank + (device ? `device ${track.device}` : track.process || "process");
}

function putTrack(lines, track, y, settings, group) {
  const key = `track ${track.track}`, folded = settings.folded.has(key);
  let row = track.row, first = true;
  const usual = settings.wide ? WIDE_LINE : LINE;
  for (let lane = 0; lane < track.lanes.length; lane++) {
    for (let depth = 0; depth < track.lanes[lane]; depth++, row++) {
      if (folded && !first) continue;
      const height = track.kind === "counter" ? COUNTER_LINE : depth >= DEEP_FROM ? DEEP_LINE : usual;
      lines.push(
          {kind: "row", y, height, key, group, track, row, depth, lane, first, folded, thin: depth >= DEEP_FROM});
      y += height;
      first = false;
    }
  }
  return y + GAP;
}

/* Lines that [top, bottom) shows: positions [from, past). */
export function inSight(lines, top, bottom) {
  let low = 0, high = lines.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lines[middle].y + lines[middle].height <= top)
      low = middle + 1;
    else
      high = middle;
  }
  let past = low;
  while (past < lines.length && lines[past].y < bottom) past++;
  return [low, past];
}

export function lineAt(lines, y) {
  const [from] = inSight(lines, y, y + 1);
  const line = lines[from];
  return line && y >= line.y && y < line.y + line.height ? line : null;
}
