// Runs in each page before the page's own code.
window.bench = {tasks: [], shown: 0, end: 0}
new PerformanceObserver(list => bench.tasks.push(...list.getEntries().map(e => ({at: e.startTime, ms: e.duration})))).observe({type: 'longtask', buffered: true})
bench.when = (selector, text) => new Promise(done => {
  const look = () => {
    const found = [...document.querySelectorAll(selector)].some(e => e.textContent.includes(text))
    if (found) requestAnimationFrame(() => done(performance.now()))
    return found
  }
  if (look()) return
  const watch = new MutationObserver(() => look() && watch.disconnect())
  watch.observe(document, {childList: true, subtree: true, characterData: true})
})
bench.longest = (from) => Math.max(0, ...bench.tasks.filter(t => t.at + t.ms >= from).map(t => t.ms))
// use calls step for each frame during ms milliseconds. It resolves to the frames per second and the longest task.
bench.use = (ms, step) => new Promise(done => {
  const begun = performance.now()
  let frames = 0
  const frame = () => {
    const now = performance.now()
    if (now - begun > ms) return setTimeout(() => done({fps: frames / (now - begun) * 1000, longest: bench.longest(begun)}), 100)
    step(frames++)
    requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
})
bench.scroller = (selector) => [...document.querySelectorAll(selector + ' *')].find(e => e.scrollHeight > e.clientHeight + 10 && getComputedStyle(e).overflowY === 'auto')
bench.fill = (label, text) => {
  const field = document.querySelector('input[aria-label="' + label + '"]')
  field.value = text
  field.dispatchEvent(new Event('input', {bubbles: true}))
  return field
}
