'use strict';
// Tables are sorted, cases found and curves hidden; without this script all of them are shown.
const enhance = () => {
  for (const table of document.querySelectorAll('table.sortable')) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const value = (row, column) => {
      const cell = row.cells[column];
      return cell.dataset.v ?? (cell.classList.contains('num') ? null : cell.textContent.trim());
    };
    const compare = (a, b) => {
      const [x, y] = [Number(a), Number(b)];
      return a !== '' && b !== '' && !isNaN(x) && !isNaN(y) ? x - y : a.localeCompare(b, 'en', { numeric: true });
    };
    for (const head of table.querySelectorAll('th[data-col]')) {
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener('click', () => {
        const turn = { ascending: 'descending', descending: null }[head.getAttribute('aria-sort')];
        const way = turn === undefined ? 'ascending' : turn;
        for (const other of table.querySelectorAll('th[aria-sort]')) other.removeAttribute('aria-sort');
        if (way === null) return body.append(...original);
        head.setAttribute('aria-sort', way);
        const column = Number(head.dataset.col);
        const known = original.filter((row) => value(row, column) !== null);
        known.sort((a, b) => (way === 'ascending' ? 1 : -1) * compare(value(a, column), value(b, column)));
        // Rows without a value stay at the end.
        body.append(...known, ...original.filter((row) => value(row, column) === null));
      });
    }
    if (table.classList.contains('cases') && original.length > 12) {
      const label = document.createElement('label');
      label.className = 'find';
      const input = document.createElement('input');
      input.type = 'search';
      label.append('Find a case', input);
      const found = document.createElement('span');
      found.className = 'aside';
      found.setAttribute('role', 'status');
      label.append(found);
      input.addEventListener('input', () => {
        const wanted = input.value.trim().toLowerCase();
        for (const row of original) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
        found.textContent = wanted ? `${original.filter((row) => !row.hidden).length} of ${original.length}` : '';
      });
      table.parentElement.before(label);
    }
  }
  for (const item of document.querySelectorAll('[data-toggle]')) {
    const label = document.createElement('label');
    const box = document.createElement('input');
    box.type = 'checkbox';
    box.checked = true;
    label.append(box, ...item.childNodes);
    item.append(label);
    box.addEventListener('change', () => {
      for (const part of document.querySelectorAll(`.charts [data-run="${item.dataset.toggle}"]`)) {
        part.classList.toggle('off', !box.checked);
      }
    });
  }
};
enhance();
// A link into something folded opens it.
const open = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part.tagName === 'DETAILS') part.open = true;
};
addEventListener('hashchange', open);
open();
