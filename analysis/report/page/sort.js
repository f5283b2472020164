"use strict";
// A click on a column's title sorts its table: numbers and bounds by their value, missing ones last, and everything else
// by name.
function value(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = parseFloat(text.replace(/^at (least|most) /, ""));
  return Number.isNaN(number) ? { text } : { number, text };
}
function compare(a, b) {
  if ("number" in a && "number" in b) return a.number - b.number;
  return a.text.localeCompare(b.text, undefined, { numeric: true });
}
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const heading = button.parentElement;
    const column = heading.cellIndex;
    const body = heading.closest("table").tBodies[0];
    const descending = heading.getAttribute("aria-sort") === "ascending";
    const missing = (row) => row.cells[column].textContent.trim() === "\u2013";
    const rows = [...body.rows].sort((a, b) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      const order = compare(value(a, column), value(b, column));
      return descending ? -order : order;
    });
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    body.append(...rows);
  });
}
