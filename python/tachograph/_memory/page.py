"""The page of a memory timeline: one HTML file with its data and all it needs to draw them."""

from __future__ import annotations

import html
import json

_MOST = 4000  # points that are drawn

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title><style>
body{font:14px system-ui,sans-serif;margin:24px;color:#222;background:#fff}
svg{width:100%;height:70vh;border:1px solid #ccc;cursor:crosshair;display:block}
label{margin-right:14px;white-space:nowrap}label span{display:inline-block;width:11px;height:11px;margin:0 4px;opacity:.7}
#read{font-variant-numeric:tabular-nums;min-height:3em;margin:8px 0}p{color:#555}
</style></head><body><h1>@TITLE@</h1><div id="legend"></div>
<div id="read">Point at the plot for the figures; drag to zoom in, double-click to zoom out.</div>
<svg id="plot" preserveAspectRatio="none"></svg><p>@NOTES@</p>
<script type="application/json" id="data">@DATA@</script><script>
const d=JSON.parse(document.getElementById("data").textContent),svg=document.getElementById("plot"),read=document.getElementById("read");
const NS="http://www.w3.org/2000/svg",W=1000,H=500,shown=d.names.map(()=>true);let a=0,z=d.times.length-1,from=null;
svg.setAttribute("viewBox",`0 0 ${W} ${H}`);
function bytes(n){const u=["B","KiB","MiB","GiB","TiB"];let i=0;while(Math.abs(n)>=1024&&i<4){n/=1024;i++}return n.toFixed(i?2:0)+" "+u[i]}
function total(k){return d.sizes[k].reduce((s,v,c)=>s+(shown[c]?v:0),0)}
function x(k){const t0=d.times[a],t1=d.times[z];return t1>t0?(d.times[k]-t0)/(t1-t0)*W:0}
function draw(){svg.textContent="";let top=1;for(let k=a;k<=z;k++)top=Math.max(top,total(k));
 const base=new Float64Array(z-a+1);
 d.names.forEach((n,c)=>{if(!shown[c])return;let up="",down="";
  for(let k=a;k<=z;k++){const low=base[k-a],high=low+d.sizes[k][c],right=k<z?x(k+1):W;base[k-a]=high;
   up+=`L${x(k)} ${H-high/top*H}L${right} ${H-high/top*H}`;down=`L${right} ${H-low/top*H}L${x(k)} ${H-low/top*H}`+down}
  const p=document.createElementNS(NS,"path");p.setAttribute("d","M"+up.slice(1)+down+"Z");p.setAttribute("fill",d.colours[c]);
  p.setAttribute("fill-opacity",".7");svg.append(p)})}
function at(e){const r=svg.getBoundingClientRect(),t=d.times[a]+(e.clientX-r.left)/r.width*(d.times[z]-d.times[a]);
 let l=a,h=z;while(l<h){const m=(l+h+1)>>1;if(d.times[m]<=t)l=m;else h=m-1}return l}
svg.onmousemove=e=>{const k=at(e);read.textContent=((d.times[k]-d.times[0])/1000).toFixed(3)+" ms: "+bytes(total(k))+" = "+
 d.names.map((n,c)=>[n,d.sizes[k][c],c]).filter(v=>v[1]&&shown[v[2]]).map(v=>v[0]+" "+bytes(v[1])).join(" + ")};
svg.onmousedown=e=>{from=at(e);e.preventDefault()};
svg.onmouseup=e=>{const to=at(e);if(from!==null&&Math.abs(to-from)>1){[a,z]=[Math.min(from,to),Math.max(from,to)];draw()}from=null};
svg.ondblclick=()=>{a=0;z=d.times.length-1;draw()};
d.names.forEach((n,c)=>{const l=document.createElement("label"),b=document.createElement("input"),s=document.createElement("span");
 b.type="checkbox";b.checked=true;b.onchange=()=>{shown[c]=b.checked;draw()};s.style.background=d.colours[c];l.append(b,s,n);
 document.getElementById("legend").append(l)});
if(d.times.length)draw();else read.textContent="No memory was taken or given back on this device.";
</script></body></html>
"""


def _thinned(times: list[int], sizes: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Of long timelines the moments of most and least memory in each stretch, and both ends."""
    if len(times) <= _MOST:
        return times, sizes
    totals = [sum(row) for row in sizes]
    keep = {0, len(times) - 1}
    for k in range(_MOST // 2):
        stretch = range(len(times) * k // (_MOST // 2), len(times) * (k + 1) // (_MOST // 2))
        keep.update((max(stretch, key=totals.__getitem__), min(stretch, key=totals.__getitem__)))
    order = sorted(keep)
    return [times[i] for i in order], [sizes[i] for i in order]


def page(
    title: str, times: list[int], sizes: list[list[int]], names: list[str], colours: list[str], missing: list[str]
) -> str:
    """times in microseconds; sizes: bytes by name at each of them."""
    peak = max((sum(row) for row in sizes), default=0)
    drawn_times, drawn_sizes = _thinned(times, sizes)
    notes = [f"Most at once: {peak:,} bytes.", *(f"Not recorded: {text}." for text in missing)]
    if len(drawn_times) < len(times):
        notes.append(f"Drawn are {len(drawn_times):,} of {len(times):,} moments, the highest and lowest among them.")
    data = json.dumps({"times": drawn_times, "sizes": drawn_sizes, "names": names, "colours": colours}).replace(
        "</", "<\\/"
    )
    return (
        _PAGE.replace("@TITLE@", html.escape(title))
        .replace("@NOTES@", html.escape(" ".join(notes)))
        .replace("@DATA@", data)
    )
