"use strict";
// Lets readers sort every table: a button in each heading, by mouse or keyboard. Without scripts
// the tables are read in the order in which they were written.
const units = { "": 1, "%": 0.01, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };

function valueOf(cell) {
  const text = (cell.dataset.value ?? cell.textContent).trim();
  if (text === "" || text === "-") return null;
  const found = /^[<>]?\s*([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)(%|[kMGT](?![a-z]))?/i.exec(text);
  return found ? Number(found[1].replaceAll(",", "")) * units[found[2] ?? ""] : text.toLowerCase();
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

function sort(table, column, heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => [valueOf(row.cells[column]), row]);
  const known = rows.filter(([value]) => value !== null);
  known.sort(([one], [other]) => (down ? compare(other, one) : compare(one, other)));
  const missing = rows.filter(([value]) => value === null); // always at the end
  body.append(...[...known, ...missing].map(([, row]) => row));
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
}

for (const table of document.querySelectorAll(".frame > table")) {
  if (table.tBodies[0].rows.length < 2) continue;
  Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this column";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sort(table, column, heading));
  });
}

// Commands break between their words only: browsers would also break within an option, as "-" and
// "-seed". What is copied stays the same.
for (const code of document.querySelectorAll("pre.command > code")) {
  const words = code.textContent.split(" ").map((text) => {
    const word = document.createElement("span");
    word.textContent = text;
    return word;
  });
  code.replaceChildren(...words.flatMap((word, place) => (place ? [" ", word] : [word])));
}
