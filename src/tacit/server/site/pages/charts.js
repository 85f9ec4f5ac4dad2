/** The charts: an interval per answer or group, the trend, and how the interval shrank. Chart.js is loaded by the page. */

import { dayName, estimateText, halfWidth, intervalText, make, percent, perReport, questionOf, saysNothing, shrank, spread, whole } from "./common.js";
import { say } from "./language.js";

const { Chart } = globalThis;
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
Chart.defaults.font.size = 13;
const ROW_HEIGHT = 30;
const FRAME_HEIGHT = 64;
const HISTORY_HEIGHT = 280;
const PNG = { width: 1000, scale: 2, margin: 32, line: 26 };
const DAY = 86_400_000;

/** The colours of the current scheme, from the stylesheet. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(
    ["accent", "text", "soft", "line", "card"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  );
}

/** A hexadecimal colour of which 40% is left. */
const faint = (colour) => `${colour}66`;

/** A name that leaves room for the chart. */
const shortened = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

/** Draws each estimate as a dot and each prior expectation as a tick, over the interval bars. */
const marks = {
  id: "marks",
  afterDatasetsDraw(chart, _args, { rows, colours }) {
    const { ctx } = chart;
    const { x } = chart.scales;
    chart.getDatasetMeta(0).data.forEach((bar, index) => {
      const { estimate, prior } = rows[index];
      ctx.save();
      if (prior !== null) {
        ctx.fillStyle = colours.soft;
        ctx.fillRect(x.getPixelForValue(prior) - 1, bar.y - 10, 2, 20);
      }
      if (estimate !== null) {
        ctx.beginPath();
        ctx.arc(x.getPixelForValue(estimate), bar.y, 5, 0, 2 * Math.PI);
        ctx.fillStyle = colours.accent;
        ctx.strokeStyle = colours.card;
        ctx.lineWidth = 1.5;
        ctx.fill();
        ctx.stroke();
      }
      ctx.restore();
    });
  },
};

/** What all charts share: no motion, the page's colours, tooltips with these callbacks. */
const base = (colours, callbacks = {}, plugins = {}) => ({
  locale: document.documentElement.lang,
  animation: false,
  maintainAspectRatio: false,
  color: colours.text,
  plugins: { legend: { display: false }, tooltip: { displayColors: false, callbacks }, ...plugins },
});

/** An axis of numbers in the page's colours. */
const axis = (colours, title, more = {}) => ({
  grid: { color: colours.line },
  border: { color: colours.line },
  title: { display: Boolean(title), text: title, color: colours.soft },
  ...more,
  ticks: { color: colours.soft, maxRotation: 0, ...more.ticks },
});

/** An axis of names, all of them shown. */
const nameAxis = (colours, ticks = {}) =>
  axis(colours, "", { grid: { display: false }, ticks: { color: colours.text, autoSkip: false, ...ticks } });

/** A row in the units of the chart; a group or a day has a number of reports of its own. Shares stay on the chart. */
function perPerson(row, results) {
  const { scale } = perReport(results);
  const reports = row.n_reports ?? results.n_reports;
  const within = (number) => (results.counts_people ? Math.min(100, Math.max(0, number)) : number);
  const per = (number) => (number === null ? null : within((number / reports) * scale));
  return {
    estimate: saysNothing(row, { ...results, n_reports: reports }) ? null : per(row.estimate),
    prior: per(row.prior),
    interval: row.low === null ? null : [per(row.low), per(row.high)],
  };
}

/** Horizontal intervals, one row per answer, in shares where people are counted and in means otherwise. */
function intervalConfig(results, width) {
  const colours = palette();
  const rows = results.rows.map((row) => perPerson(row, results));
  const bars = {
    data: rows.map((row) => row.interval),
    backgroundColor: faint(colours.accent),
    borderRadius: 4,
    borderSkipped: false,
    barThickness: 8,
    minBarLength: 2,
  };
  return {
    type: "bar",
    data: { labels: results.rows.map((row) => row.name), datasets: [bars] },
    options: intervalOptions(results, rows, colours, width),
    plugins: [marks],
  };
}

/** What a row says when it is pointed at. */
function tooltip(row, results) {
  const own = { ...results, n_reports: row.n_reports ?? results.n_reports };
  const expected = spread(row.prior, row.margin ?? row.standard_error, own);
  return [`${estimateText(row, own)} (${intervalText(row, own)})`, say("board_from_prior", { share: expected })];
}

/** Axes and tooltips of the intervals; `rows` are in the units of the chart. */
function intervalOptions(results, rows, colours, width) {
  const narrow = width < 500;
  const label = ({ dataIndex }) => {
    return tooltip(results.rows[dataIndex], results);
  };
  const name = function (index) {
    return shortened(this.getLabelForValue(index), Math.max(14, Math.floor(width / 18)));
  };
  return {
    ...base(colours, { label }, { marks: { rows, colours } }),
    indexAxis: "y",
    interaction: { mode: "index", axis: "y", intersect: false },
    scales: {
      x: axis(colours, perReport(results).unit, { ...range(rows, results.counts_people), ticks: { maxTicksLimit: narrow ? 5 : 9 } }),
      y: nameAxis(colours, { callback: name }),
    },
  };
}

/** The ends of the axis: from zero for several rows, close around a single one; shares never leave 0 to 100%. */
function range(rows, shares) {
  const numbers = rows
    .flatMap((row) => [row.estimate, row.prior, ...(row.interval ?? [])])
    .filter((number) => number !== null);
  if (!numbers.length) return { min: 0 };
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  if (rows.length > 1) return { beginAtZero: true, suggestedMin: low, suggestedMax: high, ...(shares && { min: 0 }) };
  const room = (high - low || Math.abs(high) || 1) * 0.3;
  const [from, to] = [low - room, high + room];
  if (!shares) return { beginAtZero: false, suggestedMin: from, suggestedMax: to };
  return {
    beginAtZero: false,
    ...(from <= 0 ? { min: 0 } : { suggestedMin: from }),
    ...(to >= 100 ? { max: 100 } : { suggestedMax: to }),
  };
}

/** A line through the estimates of several times, each with its interval. */
function trendConfig(results, width) {
  const colours = palette();
  const rows = results.rows.map((row) => perPerson(row, results));
  const estimates = {
    type: "line",
    data: rows.map((row) => row.estimate),
    borderColor: colours.accent,
    backgroundColor: colours.accent,
    borderWidth: 2,
    pointRadius: 4.5,
  };
  const bars = {
    data: rows.map((row) => row.interval),
    backgroundColor: faint(colours.accent),
    borderRadius: 4,
    borderSkipped: false,
    barThickness: 8,
    minBarLength: 2,
  };
  const label = ({ dataIndex, datasetIndex }) => (datasetIndex ? "" : tooltip(results.rows[dataIndex], results));
  return {
    type: "bar",
    data: { labels: results.rows.map((row) => row.name), datasets: [estimates, bars] },
    options: {
      ...base(colours, { label }),
      interaction: { mode: "index", intersect: false },
      scales: {
        x: axis(colours, "", { grid: { display: false }, ticks: { maxTicksLimit: Math.ceil(width / 110) } }),
        y: axis(colours, perReport(results).unit, range(rows, results.counts_people)),
      },
    },
  };
}

/** Half the interval by day; days without reports leave their room. */
function historyConfig(results, width) {
  const colours = palette();
  const { halfUnit } = perReport(results);
  const line = {
    data: results.history.map(({ day, reach }) => ({ x: Date.parse(day) / DAY, y: halfWidth(reach, results) })),
    borderColor: colours.accent,
    backgroundColor: colours.accent,
    borderWidth: 2.5,
    pointRadius: 3.5,
  };
  const title = ([{ dataIndex }]) => {
    const { day, n_reports: reports } = results.history[dataIndex];
    return say("board_day_reports", { day: dayName(day), count: whole(reports) });
  };
  const dayTick = (x) => dayName(new Date(x * DAY).toISOString().slice(0, 10), { year: false });
  return {
    type: "line",
    data: { datasets: [line] },
    options: {
      ...base(colours, { title }),
      interaction: { mode: "index", intersect: false },
      scales: {
        x: axis(colours, "", {
          type: "linear",
          grid: { display: false },
          ticks: { precision: 0, maxTicksLimit: Math.min(7, Math.ceil(width / 90)), callback: dayTick },
        }),
        y: axis(colours, halfUnit, { beginAtZero: true }),
      },
    },
  };
}

/** Draw on a canvas of the page, in place where the kind of chart stays the same. */
function draw(canvas, config, height, label) {
  canvas.parentElement.style.blockSize = `${height}px`;
  canvas.setAttribute("aria-label", label);
  const drawn = Chart.getChart(canvas);
  if (drawn?.config.type !== config.type) {
    drawn?.destroy();
    return new Chart(canvas, config);
  }
  drawn.data = config.data;
  drawn.options = config.options;
  drawn.update("none");
  return drawn;
}

/** Room for a row per answer, and the axis. */
const intervalHeight = (results) => results.rows.length * ROW_HEIGHT + FRAME_HEIGHT;

/** Draw intervals on a canvas of the page. */
export function drawIntervals(canvas, results, what) {
  const config = intervalConfig(results, canvas.parentElement.clientWidth);
  draw(canvas, config, intervalHeight(results), say("board_same_numbers", { what }));
}

/** Draw a trend on a canvas of the page. */
export function drawTrend(canvas, results) {
  const config = trendConfig(results, canvas.parentElement.clientWidth);
  draw(canvas, config, HISTORY_HEIGHT, say("board_same_numbers", { what: say("board_trend") }));
}

/** Draw both charts of all reports. */
export function drawCharts(results, intervals, history) {
  drawIntervals(intervals, results, say("board_chart", { name: questionOf(results) }));
  if (!shrank(results)) return;
  const label = say("board_same_numbers", { what: say("board_history") });
  draw(history, historyConfig(results, history.parentElement.clientWidth), HISTORY_HEIGHT, label);
}

/** Both charts as one picture with the question above them; of several questions the intervals of each panel. */
export function chartsPicture(results, title, panels = []) {
  const { width, scale, margin, line } = PNG;
  const colours = palette();
  const parts = panels.length ? panels.filter(({ rows }) => rows.length).map(panelPart) : pictureParts(results);
  const height = parts.reduce((sum, part) => sum + part.height + 2 * line, 2 * margin + line);
  const picture = make("canvas", { width: (width + 2 * margin) * scale, height: height * scale });
  const ctx = picture.getContext("2d");
  const write = (text, y, size, colour) => {
    ctx.fillStyle = colour;
    ctx.font = `600 ${size}px ${Chart.defaults.font.family}`;
    ctx.fillText(text, margin, y, width);
  };
  ctx.scale(scale, scale);
  ctx.fillStyle = colours.card;
  ctx.fillRect(0, 0, width + 2 * margin, height);
  write(shortened(title, 100), margin + 18, 20, colours.text);
  let y = margin + line;
  for (const part of parts) {
    const canvas = make("canvas", { width, height: part.height });
    const options = { ...part.config.options, responsive: false, devicePixelRatio: scale };
    const chart = new Chart(canvas, { ...part.config, options });
    write(part.caption, y + line, 14, colours.soft);
    ctx.drawImage(canvas, margin, y + 1.5 * line, width, part.height);
    chart.destroy();
    y += part.height + 2 * line;
  }
  return new Promise((resolve) => picture.toBlob(resolve, "image/png"));
}

/** The chart of one of several questions. */
const panelPart = (panel) => ({
  config: intervalConfig(panel, PNG.width),
  height: intervalHeight(panel),
  caption: say("board_panel", { title: panel.title, count: whole(panel.n_reports) }),
});

/** The charts of the picture, each with its height and caption. */
function pictureParts(results) {
  const { n_reports: reports, estimator, level } = results;
  const caption = say("board_caption", { count: whole(reports), estimator, level: percent(level) });
  const estimates = { config: intervalConfig(results, PNG.width), height: intervalHeight(results), caption };
  if (!shrank(results)) return [estimates];
  const config = historyConfig(results, PNG.width);
  return [estimates, { config, height: HISTORY_HEIGHT, caption: say("board_history") }];
}
