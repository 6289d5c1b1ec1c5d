package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/place/local"
)

// hostileText is text with which an agent tries to attack the reader.
const hostileText = `<script>window.owned=1</script><img src=x onerror=window.owned=1>`

// TestHostile shows output and texts that contain markup, control sequences, and characters that reorder text. The markup must be shown as
// text, the colors must be rendered, and the characters that reorder text must be visible as escapes.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	script := "cat <<'E'\n" + hostileText + "\nE\n" + `printf '\033[31mred\033[0m \033]0;title\007 \xe2\x80\xaegnp.exe\n'` +
		"\n" + `head -c 10000000 /dev/zero | tr '\0' x; echo; echo "the end"`
	id := s.startTask(t, "papi", script)
	s.waitForEnd(t, id)
	b := openAt(t, s.home, "/tasks/"+id)
	b.waitForText("the end")
	b.press("output")
	b.press("Start")
	b.waitForText(hostileText)
	b.waitForText(`\u202egnp.exe`)
	require.Equal(t, "red", eval[string](b, `document.querySelector('.ansi-red').textContent`))
	b.press("End")
	b.waitForText("the end")
	b.goTo("/agents/papi")
	b.waitForText("<script>")
	require.False(t, eval[bool](b, `'owned' in window`))

	r, err := s.api.CreateAgent(t.Context(), &fleetv1.CreateAgentRequest{Name: "other", Project: "shell", Spec: strings.Repeat(hostileText, 3)})
	require.NoError(t, err)
	b.goTo("/agents/" + r.GetAgent().GetName())
	b.waitForText("<script>")
	require.False(t, eval[bool](b, `'owned' in window`))
}

// TestHostileChanges shows the changes of a hostile agent: names of files and lines of a diff that try to become markup, to
// hide or reorder text, or to stop the browser.
func TestHostileChanges(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *app.Config) {
		cfg.Local.Projects = []local.Project{{Name: "shell", Repository: newRepository(t, "first.txt", "")}}
	})
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", "cat > '<img src=x onerror=window.owned=1>' <<'E'\n"+hostileText+"\nE\n"+
		`printf 'a \xe2\x80\xaegnp.exe \033[31mred\033[0m\n' > "$(printf 'x\xe2\x80\xaegnp.sh')"`+"\n"+
		`{ echo first; head -c 10000000 /dev/zero | tr '\0' x; echo; echo last; } > long.txt`+"\n"+
		`git add -A && git -c user.name=test -c user.email=test@example.com commit -q -m "<script>window.owned=1</script>"`)
	s.waitForEnd(t, id)
	b := openAt(t, s.home, "/tasks/"+id+"?view=changes")
	b.waitForText("3 files")
	b.waitForText(`x\u202egnp.sh`)
	b.waitForText("<img src=x onerror=window.owned=1>")
	eval[bool](b, `document.querySelectorAll('main details').forEach(d => { d.open = true }), true`)
	b.waitForText(hostileText)
	b.waitForText(`a \u202egnp.exe \u001b[31mred`)
	b.waitForText("first")
	b.waitForText("more characters")
	b.waitForText("Show more")
	for range 19 { // parts of the diff of 10 MB
		b.press("Show more")
	}
	b.waitForText("last")
	require.False(t, eval[bool](b, `'owned' in window`))
	require.Less(t, eval[int](b, `document.body.innerText.length`), 100_000)
}

// TestHiddenChanges shows changes that an agent tries to hide from the reviewer: behind a carriage return, in a file with a byte that is
// not UTF-8, and in lines that look like the header of another file.
func TestHiddenChanges(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *app.Config) {
		cfg.Local.Projects = []local.Project{{Name: "shell", Repository: newRepository(t, "first.sql", "-- a\nselect 1;\n")}}
	})
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", `printf 'harmless\rharmful\n' > return.sh; printf 'caf\351\n' > latin.txt; printf '++ b\n@@ c\n' > first.sql`+"\n"+
		`git add -A && git -c user.name=test -c user.email=test@example.com commit -q -m change`)
	s.waitForEnd(t, id)
	b := openAt(t, s.home, "/tasks/"+id+"?view=changes")
	b.waitForText("3 files")
	b.waitForText(`+harmless\u000dharmful`)
	b.waitForText("+caf\uFFFD")
	for _, line := range []string{"--- a", "-select 1;", "+++ b", "+@@ c"} {
		b.waitForText(line)
	}
}

// TestHiddenEdit shows an edit whose lines look like the header of a patch.
func TestHiddenEdit(t *testing.T) {
	t.Parallel()
	var tr transcript
	tr.toolCall("", "c1", "Edit", object{"file_path": "first.sql", "old_string": "-- a", "new_string": "++ b"})
	tr.toolResult("", "c1", "updated", object{"filePath": "first.sql", "structuredPatch": []object{
		{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": []string{"--- a", "+++ b", " select 1;"}},
		{"oldStart": 9, "oldLines": 1, "newStart": 9, "newLines": 1, "lines": []string{"-two", "+three"}},
	}})
	s := serveTranscript(t, &tr)
	id := s.startTask(t, "claude", "Edit it")
	s.waitForEnd(t, id)
	b := openAt(t, s.home, "/tasks/"+id)
	b.waitForText("first.sql")
	eval[bool](b, `[...document.querySelectorAll('button[aria-expanded]')].find(e => e.textContent.includes('Edit')).click(), true`)
	b.waitForText("three")
	require.Contains(t, b.text(), "--- a")
	require.Contains(t, b.text(), "+++ b")
}
