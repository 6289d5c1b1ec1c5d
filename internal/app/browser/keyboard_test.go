package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// focusRings is an expression that gives the focus to each element of the page that can have it. Its value is a list of the elements
// whose focus ring is missing, has too little contrast, or is cut off. The criteria 1.4.11, 2.4.7 and 2.4.11 of WCAG 2.2 require a
// visible ring.
const focusRings = `(() => {
	const light = c => { const [r, g, b] = c.match(/[\d.]+/g).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
	const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/^rgba\(.*, 0\)$|transparent/.test(c)) return c } return 'rgb(255, 255, 255)' }
	const wrong = []
	let checked = 0
	for (const e of document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')) {
		if (e.disabled || !e.checkVisibility({visibilityProperty: true})) continue
		e.focus({focusVisible: true})
		const is = what => wrong.push(what + ': ' + e.outerHTML.slice(0, 120))
		if (document.activeElement !== e) { is('takes no focus'); continue }
		checked++
		const s = getComputedStyle(e), width = parseFloat(s.outlineWidth), offset = parseFloat(s.outlineOffset)
		if (s.outlineStyle === 'none' || width < 2) { is('no ring'); continue }
		const [a, b] = [light(s.outlineColor), light(behind(offset < 0 ? e : e.parentElement))]
		if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 3) is('too little contrast, ' + s.outlineColor)
		const r = e.getBoundingClientRect(), out = Math.max(0, width + offset)
		for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) {
			if (getComputedStyle(p).overflowX === 'visible') continue
			const box = p.getBoundingClientRect(), left = box.left + p.clientLeft, top = box.top + p.clientTop
			const [right, bottom] = [left + p.clientWidth, top + p.clientHeight]
			// The ring of an element that is wider than its box is cut off anyway.
			if (r.left - out < left && r.left >= left || r.right + out > right && r.right <= right || r.top - out < top && r.top >= top || r.bottom + out > bottom && r.bottom <= bottom)
				is('cut off by ' + p.className)
		}
	}
	return checked < 5 ? ['only ' + checked + ' can have the focus'] : wrong
})()`

// checkRings checks the focus rings in the light and the dark color scheme.
func (b *tab) checkRings(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.setColorScheme(scheme)
		require.Empty(b.t, eval[[]string](b, focusRings), "%s, %s", name, scheme)
	}
}

// TestKeyboard uses the page without a mouse: the link to the content, a dialog that returns the focus when it closes, a palette that
// does not discard text in a dialog, a change of the view, and a confirmation before a deletion.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	b := openAt(t, s.home, "/")
	b.waitForText("1 agent")
	waitForFocus := func(what string) {
		t.Helper()
		require.NoError(t, b.waitUntil(`what => { const e = document.activeElement; return (e.getAttribute('aria-label') || e.textContent.trim() || e.id).startsWith(what) }`, what),
			"the focus is not on %q, but on %s", what, eval[string](b, `document.activeElement.outerHTML.slice(0, 200)`))
	}
	b.pressKeys(kb.Tab)
	waitForFocus("Skip to the content")
	b.pressKeys(kb.Enter)
	require.NoError(t, b.waitUntil(`() => document.activeElement.id === 'main'`))
	b.pressKeys(kb.Tab)
	waitForFocus("New agent")

	eval[bool](b, `[...document.querySelectorAll('header button')].find(e => e.textContent === 'New task').focus(), true`)
	b.pressKeys(kb.Enter)
	b.waitForText("What is to be done")
	b.fill("What is to be done", "look around")
	b.pressKeys("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.pressKeys(kb.Tab)
	require.Equal(t, "look around", eval[string](b, `document.querySelector('dialog textarea').value`))
	b.pressKeys(kb.Escape)
	b.waitUntilGone("Budget in US dollars")
	waitForFocus("New task")

	eval[bool](b, `document.querySelector('a[href="/agents/papi"]').focus(), true`)
	b.pressKeys(kb.Enter)
	b.waitForText("What it is for")
	require.NoError(t, b.waitUntil(`() => document.activeElement.id === 'main'`))
	eval[bool](b, `[...document.querySelectorAll('button')].find(e => e.textContent === 'Delete').focus(), true`)
	b.pressKeys(kb.Enter)
	waitForFocus("No")
	b.pressKeys(kb.Escape)
	waitForFocus("Delete")
}
