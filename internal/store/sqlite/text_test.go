package sqlite

import (
	"database/sql"
	"fmt"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// TestTextIsFound compares searches with and without the full-text index.
func TestTextIsFound(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	begun := time.Unix(1_700_000_000, 0)
	const long, decoy = "fix the Login", "the fix is in the login"
	require.NoError(t, s.Update(t.Context(), func(w fleet.Tx) error {
		a := &fleet.Agent{UID: "u", Name: "a", Owner: "x", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: begun, UpdatedAt: begun}
		require.NoError(t, w.Insert(a))
		for i := range 100 {
			task := &fleet.Task{
				ID: fmt.Sprint("t", i), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Source: fleet.SourceHuman, Status: fleet.TaskCompleted,
				CreatedAt: begun.Add(time.Duration(i-i%7*3) * time.Second), EndedAt: begun,
			}
			switch i % 3 {
			case 0:
				task.Description = "please FIX tHe login now"
			case 1:
				task.Summary = decoy
			}
			require.NoError(t, w.Insert(task))
		}
		return nil
	}))
	require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
		for _, text := range []string{"login", "the Login", long, decoy, "login now but"} {
			want, err := record.QueryAll(tx.(*baseTx), record.ScanString, `SELECT id FROM tasks WHERE `+containsText+lastInsertedFirst, text, text)
			require.NoError(t, err)
			find := func(w fleet.TaskWindow) (got []string) {
				w.Limit, w.Count = 10, 30
				found, err := tx.FindTasks(fleet.TaskFilter{Owner: "x", Text: text}, w)
				require.NoError(t, err)
				for _, task := range found.Tasks {
					got = append(got, task.ID)
				}
				require.Equal(t, min(30, len(want)), found.Total, text)
				return got
			}
			require.Equal(t, want[:min(10, len(want))], find(fleet.TaskWindow{}), text)
			if len(want) > 0 {
				require.Equal(t, want[7:17], find(fleet.TaskWindow{Offset: 7}), text)
				require.Equal(t, want[5:15], find(fleet.TaskWindow{After: want[4]}), text)
			}
		}
		return nil
	}))
}

// TestTextIsFoldedAsInTheIndex checks that hasText matches the same texts as the full-text index. The index treats some
// other characters as ASCII letters.
func TestTextIsFoldedAsInTheIndex(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1)
	var texts []string
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		if unicode.SimpleFold(r) != r || unicode.ToLower(r) != r {
			texts = append(texts, "__"+string(r))
		}
	}
	for _, q := range []string{
		`CREATE TABLE tasks (n INTEGER PRIMARY KEY, description TEXT, summary TEXT)`,
		`CREATE VIRTUAL TABLE tasks_text USING fts5 (description, summary, content = '', contentless_delete = 1, tokenize = 'trigram')`,
		`INSERT INTO tasks SELECT key, '', value FROM json_each('` + jsonList(texts) + `')`,
		`INSERT INTO tasks_text (rowid, description, summary) SELECT n, description, summary FROM tasks`,
	} {
		_, err := db.ExecContext(t.Context(), q)
		require.NoError(t, err)
	}
	count := func(where string, args ...any) (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM tasks WHERE `+where, args...).Scan(&n))
		return n
	}
	folded := 0
	for c := 'a'; c <= 'z'; c++ {
		text := "__" + string(c)
		n := count(`n IN `+textRows, quotePhrase(text))
		folded += n
		require.Equal(t, n, count(hasText, text, text), text)
		require.Equal(t, n, count(hasText+` AND n IN `+textRows, text, text, quotePhrase(text)), text)
	}
	require.Positive(t, folded)
}
