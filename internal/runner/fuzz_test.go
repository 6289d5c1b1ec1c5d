package runner

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/question"
	"fleet/internal/runner/shim"
)

// FuzzJournal checks that the questions in a journal do not depend on when the journal is read, and that the text of a
// question never changes. An agent that is not confined can write any data into the journal of
// its run.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"id":"1","status":"waiting","kind":"text","text":"tabs?","options":["yes"]}`+"\n"+`{"id":"1","status":"answered","answer":"yes","by":"alice"}`+"\n"), 20)
	f.Add([]byte(`{"id":"1","text":"a"}`+"\n"+`{"id":"1","text":"b","input":{"a":"\xff\u0000"}}`+"\n"+`{"id":"2"`), 3)
	f.Add([]byte("\n{}\nnull\n[]\n{\"id\":\"\",\"asked_at\":\"x\"}\n"), 1)
	run := shim.Run(f.TempDir())
	require.NoError(f, os.MkdirAll(run.Path(question.AsksDir), 0o700))
	f.Fuzz(func(t *testing.T, data []byte, split int) {
		write := func(b []byte) { require.NoError(t, os.WriteFile(run.Path(question.Journal), b, 0o600)) }
		write(data)
		whole := journalReader{run: run}
		_, err := whole.read()
		require.NoError(t, err)

		write(data[:min(max(split, 0), len(data))])
		parts := journalReader{run: run}
		texts := map[string]string{}
		for range 2 {
			all, err := parts.read()
			require.NoError(t, err)
			for _, q := range all {
				require.NotEmpty(t, q.ID)
				if text, known := texts[q.ID]; known {
					require.Equal(t, text, q.Text)
				}
				texts[q.ID] = q.Text
			}
			write(data)
		}
		require.Equal(t, whole.questions, parts.questions)
	})
}
