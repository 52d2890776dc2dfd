// Volumes in three planes. Their voxels are in the page, gzipped; nothing is asked for.
const unpacked = async (part) => {
  const packed = Uint8Array.from(atob(part.textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};
const viewer = async (figure) => {
  const numbers = (text) => text.split(',').map(Number);
  const [size, spacing] = [numbers(figure.dataset.size), numbers(figure.dataset.spacing)];
  const [low, high] = numbers(figure.dataset.range);
  const parts = [...figure.querySelectorAll('.packed > div')];
  const [values, ...maps] = await Promise.all(parts.map(unpacked));
  const names = parts.slice(1).map((part) => part.dataset.name);
  const strides = [size[1] * size[2], size[2], 1];
  const classes = [{ name: 'background', rgb: [0, 0, 0] }];
  for (const item of figure.querySelectorAll('.classes li')) {
    const hex = item.dataset.colour;
    classes[item.dataset.class] = {
      name: item.querySelector('span').textContent,
      rgb: [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)),
    };
  }
  const rgb = (kind) => (classes[kind] ?? { rgb: [255, 255, 255] }).rgb;
  const role = (name) => figure.querySelector(`[data-role=${name}]`);
  const boxes = [...figure.querySelectorAll('[data-role=layer]')];
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
  const [black, white] = numbers(figure.dataset.window);
  role('centre').value = (black + white) / 2;
  role('width').value = white - black;
  // The middle of what is labelled, where there is any: nobody looks for it first.
  const here = size.map((side) => side >> 1);
  const labelled = maps.find((map) => map.some((kind) => kind > 0));
  if (labelled) {
    const [sums, counts] = [[0, 0, 0], [0]];
    labelled.forEach((kind, at) => {
      if (!kind) return;
      counts[0]++;
      [0, 1, 2].forEach((axis) => (sums[axis] += Math.floor(at / strides[axis]) % size[axis]));
    });
    sums.forEach((sum, axis) => (here[axis] = Math.round(sum / counts[0])));
  }
  const planes = [...figure.querySelectorAll('canvas')].map((canvas) => {
    const [across, columns, rows] = numbers(canvas.dataset.axes);
    const extent = [columns, rows].map((axis) => size[axis] * spacing[axis]);
    // All planes are drawn to one scale.
    const scale = 420 / Math.max(...size.map((side, axis) => side * spacing[axis]));
    [canvas.width, canvas.height] = extent.map((mm) => Math.max(1, Math.round(mm * scale)));
    return { canvas, across, columns, rows, slider: canvas.closest('.plane').querySelector('input') };
  });
  const draw = ({ canvas, across, columns, rows, slider }) => {
    const { width, height } = canvas;
    const pen = canvas.getContext('2d');
    const picture = pen.createImageData(width, height);
    const [centre, span, fill] = ['centre', 'width', 'fill'].map((name) => Number(role(name)?.value ?? 0));
    const grey = (byte) => clamp(((low + (byte / 255) * (high - low) - centre) / span + 0.5) * 255, 0, 255);
    // Both axes run the other way on the screen: right is at the left, and the head at the top.
    const voxel = (pixel, length, axis) => size[axis] - 1 - clamp(Math.floor((pixel / length) * size[axis]), 0, size[axis] - 1);
    const [xs, ys] = [
      Array.from({ length: width }, (_, pixel) => voxel(pixel, width, columns) * strides[columns]),
      Array.from({ length: height }, (_, pixel) => voxel(pixel, height, rows) * strides[rows]),
    ];
    const base = here[across] * strides[across];
    const shown = maps.map((map, place) => (boxes[place].checked ? { map, place } : null)).filter(Boolean);
    const filled = shown[0];
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const at = base + xs[x] + ys[y];
        const value = grey(values[at]);
        let colour = [value, value, value];
        const inside = filled && filled.map[at];
        if (inside && fill > 0) colour = rgb(inside).map((part) => value * (1 - fill) + part * fill);
        for (const { map, place } of shown) {
          const kind = map[at];
          const edge = (dx, dy) => {
            const [i, j] = [clamp(x + dx, 0, width - 1), clamp(y + dy, 0, height - 1)];
            return map[base + xs[i] + ys[j]] !== kind;
          };
          const solid = place === 0 || ((x + y) >> 2) % 2 === 0;
          if (kind && solid && (edge(1, 0) || edge(-1, 0) || edge(0, 1) || edge(0, -1))) colour = rgb(kind);
        }
        const to = 4 * (y * width + x);
        [picture.data[to], picture.data[to + 1], picture.data[to + 2], picture.data[to + 3]] = [...colour, 255];
      }
    }
    pen.putImageData(picture, 0, 0);
    pen.strokeStyle = 'rgba(255, 255, 255, 0.45)';
    const line = (axis, length) => ((size[axis] - 1 - here[axis] + 0.5) / size[axis]) * length;
    const [column, row] = [line(columns, width), line(rows, height)];
    pen.beginPath();
    for (const [x0, y0, x1, y1] of [
      [column, 0, column, row - 12], [column, row + 12, column, height],
      [0, row, column - 12, row], [column + 12, row, width, row],
    ]) {
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
    }
    pen.stroke();
    slider.value = here[across];
    canvas.setAttribute('aria-label', `${canvas.dataset.plane} plane, slice ${here[across] + 1} of ${size[across]}`);
  };
  const drawAll = () => {
    planes.forEach(draw);
    const at = here.reduce((sum, place, axis) => sum + place * strides[axis], 0);
    const value = low + (values[at] / 255) * (high - low);
    const kinds = maps.map((map, place) => `${names[place]} ${(classes[map[at]] ?? { name: map[at] }).name}`);
    const window = `window ${Number(role('centre').value).toPrecision(3)} ± ${(role('width').value / 2).toPrecision(3)}`;
    const digits = high - low > 20 ? 0 : 2;
    figure.querySelector('output').textContent =
      [`voxel ${here.map((place) => place + 1).join(', ')}`, `value ${value.toFixed(digits)}`, ...kinds, window].join(' · ');
  };
  let waiting = false;
  const again = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawAll();
    });
  };
  const go = (axis, place) => {
    here[axis] = clamp(Math.round(place), 0, size[axis] - 1);
    again();
  };
  const nudge = (name, steps) => {
    const input = role(name);
    input.value = Number(input.value) + steps * Number(input.step);
    again();
  };
  for (const { canvas, across, columns, rows, slider } of planes) {
    slider.addEventListener('input', () => go(across, Number(slider.value)));
    const point = (event) => {
      const box = canvas.getBoundingClientRect();
      const share = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      [columns, rows].forEach((axis, place) => go(axis, size[axis] - 0.5 - share[place] * size[axis]));
    };
    canvas.addEventListener('pointerdown', (event) => {
      canvas.setPointerCapture(event.pointerId);
      point(event);
    });
    canvas.addEventListener('pointermove', (event) => event.buttons === 1 && point(event));
    canvas.addEventListener('keydown', (event) => {
      const last = size[across] - 1;
      const place = { ArrowUp: here[across] + 1, ArrowDown: here[across] - 1, PageUp: here[across] + 10,
        PageDown: here[across] - 10, Home: 0, End: last }[event.key];
      const turn = { ArrowLeft: -4, ArrowRight: 4 }[event.key];
      if (place === undefined && turn === undefined) return;
      event.preventDefault();
      if (place === undefined) nudge(event.shiftKey ? 'centre' : 'width', turn);
      else go(across, place);
    });
  }
  for (const input of figure.querySelectorAll('.controls input')) input.addEventListener('input', again);
  for (const input of figure.querySelectorAll('input')) input.disabled = false;
  figure.querySelector('.needs').hidden = true;
  figure.classList.add('ready');
  drawAll();
};
for (const figure of document.querySelectorAll('.viewer')) {
  // A browser that cannot unpack leaves the words that say so.
  viewer(figure).catch(() => {});
}
