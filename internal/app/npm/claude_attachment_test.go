package npm

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// picture returns a PNG image.
func picture(t *testing.T) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))))
	return b.Bytes()
}

// hasImage reports whether a message of the request has an image.
func (r request) hasImage() bool {
	return slices.ContainsFunc(r.Messages, func(m message) bool {
		return slices.ContainsFunc(m.Content, func(b block) bool { return b.Type == "image" })
	})
}

// TestClaudeAttachments gives Claude Code an image and a text file. Fleet must remove them when the run has ended.
func TestClaudeAttachments(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "allowed_tools": []string{"Bash(cat *)"}})
	c.create(t, "papi", "coder")
	runs, err := filepath.Glob(c.home.path("data", "agents", "*", "runs"))
	require.NoError(t, err)
	require.Len(t, runs, 1)
	ask := func(prompt string) string {
		r, err := c.api.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{
			AgentName: "papi", TaskDescription: prompt, Attachments: []*fleetv1.NewAttachment{
				{Name: "picture.png", Content: picture(t)}, {Name: "my notes.txt", Content: []byte("remember the milk")},
			},
		})
		require.NoError(t, err)
		return r.GetTask().GetId()
	}
	id := ask("Look at this.\n" + `model: tool Bash {"command":"cat ` + runs[0] + `/*/attachments/*.txt"}` + "\nmodel: hang looking")
	g := c.waitAtGate(t, "looking")
	dir := filepath.Join(runs[0], id, "attachments")
	require.FileExists(t, filepath.Join(dir, "my notes.txt"))
	close(g.open)
	task := c.wait(t, id)
	require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	q := c.requestsWith("Look at this.")[0]
	require.True(t, q.hasImage(), "the first message must have the image")
	require.Contains(t, q.conversationText(), filepath.Join(dir, "my notes.txt"))
	// Claude Code refuses the pattern, because it is not the path in the prompt, and lists the directories that it may read.
	require.Contains(t, c.requestsWith("Look at this.")[1].results()[0].Content.text(), dir)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "the files must be removed when the run has ended")
}
