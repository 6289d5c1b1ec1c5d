package browser

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSearch searches for a line outside the visible part of an output, and jumps to it.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", `seq 1 300000 | sed 's/^/line /'`)
	s.waitForEnd(t, id)
	b := openAt(t, s.home, "/tasks/"+id+"?view=output")
	b.waitForText("line 300000")
	b.fill("Search the output", "line 123456")
	b.press("Search")
	b.waitForText("1 found")
	b.press("line 123456")
	b.waitForText("line 123460")
}

// TestSearchBorders searches for lines that cross a border of the parts in which the page reads the output, and for text in a line of
// 10 MB.
func TestSearchBorders(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	fill := func(n int) string { return "head -c " + strconv.Itoa(n) + " /dev/zero | tr '\\0' x; " }
	id := s.startTask(t, "papi", fill(1<<20-30)+"echo; echo 'before the Border-needle after'; echo 'äöü the second border-NEEDLE'; "+
		fill(5_000_000)+"printf '.*hidden in a long line'; "+fill(5_000_000)+"echo; echo the end")
	s.waitForEnd(t, id)
	b := openAt(t, s.home, "/tasks/"+id+"?view=output")
	b.waitForText("the end")
	b.fill("Search the output", "border-needle")
	b.press("Search")
	b.waitForText("2 found in 11 MiB of 11 MiB")
	b.press("before the Border-needle after")
	b.waitForText("äöü the second border-NEEDLE")
	b.fill("Search the output", ".*hidden in")
	b.press("Search")
	b.waitForText("1 found in 11 MiB of 11 MiB")
	eval[bool](b, `document.querySelector('.found button').click(), true`)
	require.NoError(t, b.waitUntil(`() => [...document.querySelectorAll('.line')].some(l => l.textContent.includes('.*hidden in a long line'))`))
}
