package local_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// TestAttachments checks that the agent can read the files of its task, but not change them. They are removed at the end of the
// task. A file with an invalid name is refused.
func TestAttachments(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	r := newRun(`cd "$FLEET_ATTACHMENTS"; cat "notes ä.txt"; ls | wc -l; rm -f "notes ä.txt" 2>/dev/null || echo kept`)
	r.Attachments = []fleet.Attachment{
		{Name: "notes ä.txt", MediaType: "text/plain", Content: []byte("hello\n")}, {Name: strings.Repeat("x", 255), MediaType: "image/png", Content: []byte("\x00\xff")},
	}
	output, o := w.execute(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, []string{"hello", "2", "kept"}, strings.Fields(output))
	for _, f := range r.Attachments {
		require.NoFileExists(t, w.runDir(a, r, "attachments", f.Name))
	}
	r = newRun("true")
	r.Attachments = []fleet.Attachment{{Name: "../notes.txt", MediaType: "text/plain", Content: []byte("hello")}}
	requireError(t, w.Connect(a).Dispatch(w.ctx, r), fleet.ReasonInvalidArgument, "attachments")
}

// TestAttachmentsInPrompt checks that the prompt of a program other than a shell has the paths of the files.
func TestAttachmentsInPrompt(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = []local.Project{{Name: "cat", Driver: "command", Command: []string{"printf", "%s", "{{.Prompt}}"}}}
	})
	a := w.provisionIn("cat")
	r := newRun("Read this.")
	r.Attachments = []fleet.Attachment{{Name: "notes.txt", MediaType: "text/plain", Content: []byte("hello")}}
	output, o := w.execute(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Contains(t, output, "Read this.\n")
	require.Contains(t, output, "- "+w.runDir(a, r, "attachments", "notes.txt")+" (text/plain)")
}
