// The page is fetched again when its files have changed, and what it shows takes the place of what
// it showed: what is unfolded, sorted, hidden, scrolled and focused stays so.
const SHOWN = ['header', 'nav', 'main'];
const kept = () => ({
  open: [...document.querySelectorAll('details')].map((part) => part.open),
  sorted: [...document.querySelectorAll('table.sortable')].map((table) => {
    const head = table.querySelector('th[aria-sort]');
    return head && { column: head.dataset.col, way: head.getAttribute('aria-sort') };
  }),
  hidden: [...document.querySelectorAll('[data-toggle] input')].map((box) => !box.checked),
  scrolled: [...document.querySelectorAll('.scroll')].map((part) => [part.scrollLeft, part.scrollTop]),
  focused: [...document.querySelectorAll('a, button, summary, input, .scroll')].indexOf(document.activeElement),
});
const restore = (before) => {
  document.querySelectorAll('details').forEach((part, place) => { part.open = before.open[place] ?? part.open; });
  document.querySelectorAll('table.sortable').forEach((table, place) => {
    const { column, way } = before.sorted[place] ?? {};
    const button = column && table.querySelector(`th[data-col="${column}"] button`);
    for (let turn = way === 'descending' ? 2 : 1; button && turn > 0; turn -= 1) button.click();
  });
  document.querySelectorAll('[data-toggle] input').forEach((box, place) => { if (before.hidden[place]) box.click(); });
  document.querySelectorAll('.scroll').forEach((part, place) => {
    [part.scrollLeft, part.scrollTop] = before.scrolled[place] ?? [0, 0];
  });
  if (before.focused >= 0) {
    document.querySelectorAll('a, button, summary, input, .scroll')[before.focused]?.focus({ preventScroll: true });
  }
};
const state = (page) => page.querySelector('#state .badge, #state')?.textContent.trim();
const show = (page) => {
  const [before, was] = [kept(), state(document)];
  for (const part of SHOWN) document.querySelector(part).replaceChildren(...page.querySelector(part).childNodes);
  document.title = page.title;
  document.body.dataset.version = page.body.dataset.version;
  enhance();
  restore(before);
  // A screen reader is told of a beginning and an end, not of every epoch.
  if (state(document) !== was) document.getElementById('live').textContent = state(document);
};
const watch = async () => {
  for (let failed = 0; ; ) {
    await new Promise((resolve) => setTimeout(resolve, (document.hidden ? 5000 : 1000) * Math.min(2 ** failed, 30)));
    try {
      const answer = await fetch(`${location.pathname}?seen=${document.body.dataset.version}`, { cache: 'no-store' });
      if (answer.status === 200) show(new DOMParser().parseFromString(await answer.text(), 'text/html'));
      else if (answer.status !== 204) throw new Error(answer.status);
      failed = 0;
    } catch {
      failed += 1;
    }
    document.getElementById('lost').hidden = failed < 3;
  }
};
watch();
