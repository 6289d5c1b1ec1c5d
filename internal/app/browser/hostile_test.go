package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// hostile is text of an agent that tries to attack its reader.
const hostile = `<script>window.owned=1</script><img src=x onerror=window.owned=1>`

// TestHostile shows text of a hostile agent. It must not become markup, colors must be rendered, and characters that
// reorder text must be visible.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.agent(t, "papi")
	script := "cat <<'E'\n" + hostile + "\nE\n" + `printf '\033[31mred\033[0m \033]0;title\007 \xe2\x80\xaegnp.exe\n'` +
		"\n" + `head -c 10000000 /dev/zero | tr '\0' x; echo; echo "the end"`
	id := s.task(t, "papi", script)
	s.ended(t, id)
	b := open(t, s.home)
	b.goTo("/tasks/" + id)
	b.sees("the end")
	b.press("Start")
	b.sees(hostile)
	b.sees(`\u202egnp.exe`)
	require.Equal(t, "red", eval[string](b, `document.querySelector('.ansi-red').textContent`))
	b.press("End")
	b.sees("the end")
	b.goTo("/agents/papi")
	b.sees("<script>")
	require.False(t, eval[bool](b, `'owned' in window`))

	r, err := s.api.CreateAgent(t.Context(), &fleetv1.CreateAgentRequest{Name: "other", Project: "shell", Spec: strings.Repeat(hostile, 3)})
	require.NoError(t, err)
	b.goTo("/agents/" + r.GetAgent().GetName())
	b.sees("<script>")
	require.False(t, eval[bool](b, `'owned' in window`))
}

// TestSearch searches for a line outside the visible part of an output, and jumps to it.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.agent(t, "papi")
	id := s.task(t, "papi", `seq 1 300000 | sed 's/^/line /'`)
	s.ended(t, id)
	b := open(t, s.home)
	b.goTo("/tasks/" + id)
	b.sees("line 300000")
	b.fill("Search the output", "line 123456")
	b.press("Search")
	b.sees("1 found")
	b.press("line 123456")
	b.sees("line 123460")
}
