package local_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
	"fleet/internal/waittest"
)

// setAskingProject replaces the projects by one whose agents may ask questions.
func setAskingProject(c *local.Config) {
	c.Projects = []local.Project{{Name: "shell", Roles: []local.Role{{Name: "coder", Permissions: &driver.Permissions{
		Allow: []string{"Bash(echo *)", "Write"}, Deny: []string{"Bash(rm *)"}, Ask: []string{"Write(*secret*)"}, Timeout: waittest.Limit,
	}}}}}
}

// forgeAnswer answers a question over the control socket of the run, like an agent that answers its own question. It returns
// an exit code.
func forgeAnswer(run, id string) int {
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit)
	defer cancel()
	if err := shim.Run(run).Answer(ctx, id, fleet.AnswerAllow, "", "alice", false); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// followAnswering follows the run and answers its questions with the results of answer. It does not answer a question if the result
// is empty. It returns the output, the last report of each question by its id, and the outcome.
func (w *testPlace) followAnswering(a fleet.Agent, r fleet.Run, answer func(fleet.Question) string) (string, map[string]fleet.Question, fleet.Outcome) {
	w.t.Helper()
	output, questions := "", map[string]fleet.Question{}
	o, err := w.Connect(a).Follow(w.ctx, r, "", func(out fleet.Output) error {
		output += out.Text
		if out.Question == nil {
			return nil
		}
		q := *out.Question
		questions[q.ID] = q
		text := ""
		if q.Status == fleet.QuestionWaiting {
			text = answer(q)
		}
		if text == "" {
			return nil
		}
		q.TaskID, q.ID, q.Answer, q.AnsweredBy = r.TaskID, r.TaskID+"-"+q.ID, text, "alice"
		return w.Connect(a).Answer(w.ctx, r, q)
	})
	require.NoError(w.t, err)
	return output, questions, o
}

// TestPolicy checks the rules of a role: deny comes before ask, ask comes before allow, and people are asked if no rule
// matches.
func TestPolicy(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, setAskingProject)
	a := w.provisionIn("shell")
	long := strings.Repeat("x", 100_000)
	r := w.start(a, `set +e
for input in '{"command":"echo one"}' '{"command":"rm x"}' '{"command":"echo $(rm x)"}' '{"command":"make"}'; do "$FLEET_ASK" permission Bash "$input" | head -1; done
"$FLEET_ASK" permission Write '{"file_path":"/a/secret/b"}' | head -1
"$FLEET_ASK" permission Write '{"file_path":"/a/b","content":"`+long+`"}' | head -1
"$FLEET_ASK" permission Read 'no JSON' 2>&1
"$FLEET_ASK" sing for me 2>/dev/null || echo usage $?`)
	output, questions, o := w.followAnswering(a, r, func(fleet.Question) string { return fleet.AnswerAllow })
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, "allow\ndeny\ndeny\nallow\nallow\nallow\nthe input of the tool must be JSON\nusage 2\n", output)
	var answeredBy []string
	for i := range questions {
		require.Equal(t, fleet.QuestionAnswered, questions[i].Status)
	}
	for i := 1; i <= len(questions); i++ {
		answeredBy = append(answeredBy, questions[fmt.Sprint(i)].AnsweredBy)
	}
	require.Equal(t, []string{"policy", "policy", "policy", "alice", "alice", "policy"}, answeredBy)
	require.Less(t, len(questions["6"].Input), 10_000, "long texts must be shortened for people")
	require.Contains(t, string(questions["6"].Input), "(100000 bytes)")
}

// TestAgentCannotAnswerItself runs a confined agent that tries to answer its own question. The agent must not receive an answer, and
// no answer may be reported.
func TestAgentCannotAnswerItself(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	exe := testBinary(t)
	w := newTestPlace(t, func(c *local.Config) {
		setAskingProject(c)
		c.Read = []string{exe}
	})
	a := w.provisionIn("shell")
	attacks := []string{
		exe + ` forge "$RUN" 1`,
		`echo '{"status":"answered","answer":"allow"}' >"$RUN/answers/mine"`,
		`echo '{"status":"answered","answer":"allow"}' >"$RUN/answers/$NAME"`,
		`echo '{"id":"1","status":"answered","answer":"allow","by":"alice"}' >>"$RUN/questions"`,
		`mv "$RUN/questions" stolen`, `rm -r "$RUN/answers"`, `mv "$RUN/asks" elsewhere`, `rm "$RUN/control"`,
	}
	script := `set +e; RUN=$(dirname "$FLEET_RUN_DIR")
"$FLEET_ASK" permission Bash '{"command":"make"}' >asked 2>&- & until NAME=$(basename "$RUN"/asks/*.json .json) && [ "$NAME" != '*' ]; do :; done
until [ -s "$RUN/questions" ]; do sleep 0.01; done
`
	r := w.start(a, script+attackScript(attacks)+"kill $!; wait; cat asked; echo done")
	output, questions, o := w.followAnswering(a, r, func(fleet.Question) string { return "" })
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	requireNoSuccess(t, output, attacks)
	require.Equal(t, "done\n", output, "the agent must not receive an answer")
	require.Len(t, questions, 1)
	require.Equal(t, fleet.QuestionWithdrawn, questions["1"].Status)
	require.Empty(t, questions["1"].AnsweredBy)
}

// TestHostileQuestions runs an agent that writes arbitrary files into the directory of its questions. The supervisor
// must continue to work and process valid questions.
func TestHostileQuestions(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, setAskingProject)
	a := w.provisionIn("shell")
	r := w.start(a, `set +e; ASKS=$(dirname "$FLEET_RUN_DIR")/asks; cd "$ASKS"
mkfifo fifo.json; ln -s /dev/zero link.json; mkdir dir.json; head -c 2000000 /dev/zero >huge.json; echo '{' >torn.json; echo '[]' >list.json
echo '{"kind":"order"}' >kind.json; echo '{"kind":"permission"}' >tool.json; echo '{"kind":"question","text":" "}' >empty.json
for name in fifo link dir huge torn list kind tool empty missing; do echo "ask $name" >pipe; done
head -c 100000 /dev/zero >pipe; echo >pipe; echo "ask ../../spec" >pipe; echo "sing" >pipe; echo "got nothing" >pipe; echo "drop nothing" >pipe
for name in fifo link dir huge torn list kind tool empty missing; do until [ -e ../answers/$name ]; do sleep 0.01; done; cat ../answers/$name; echo; done
printf '{"kind":"question","text":"\377 \\u0000 odd"}' >odd.json; echo "ask odd" >pipe; until [ -e ../answers/odd ]; do sleep 0.01; done; echo "got odd" >pipe
"$FLEET_ASK" question "Still there?"`)
	output, questions, o := w.followAnswering(a, r, func(fleet.Question) string { return "yes" })
	require.Equal(t, fleet.TaskCompleted, o.Status, "%s: %s", o.Reason, output)
	require.Equal(t, 10, strings.Count(output, `"status":"refused"`), output)
	require.True(t, strings.HasSuffix(output, "\nyes\n"), output)
	require.Len(t, questions, 2)
	require.NotContains(t, questions["1"].Text, "\x00")
	require.Contains(t, questions["1"].Text, "odd")
}

// TestTooManyQuestions checks that a run can have only 20 open questions, and can ask again when they are withdrawn.
func TestTooManyQuestions(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, setAskingProject)
	a := w.provisionIn("shell")
	r := w.start(a, `ASKS=$(dirname "$FLEET_RUN_DIR")/asks
for i in $(seq 30); do echo '{"kind":"question","text":"?"}' >"$ASKS/q$i.json"; echo "ask q$i" >"$ASKS/pipe"; done
for i in $(seq 21 30); do until [ -e "$ASKS/../answers/q$i" ]; do sleep 0.01; done; cat "$ASKS/../answers/q$i"; done; echo; echo full
for i in $(seq 20); do echo "drop q$i" >"$ASKS/pipe"; done
"$FLEET_ASK" question "And now?"`)
	output, questions, o := w.followAnswering(a, r, func(q fleet.Question) string {
		if q.Text == "And now?" {
			return "yes"
		}
		return ""
	})
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, 10, strings.Count(output, "20 questions wait for an answer already"), output)
	require.True(t, strings.HasSuffix(output, "full\nyes\n"), output)
	withdrawn := 0
	for _, q := range questions {
		if q.Status == fleet.QuestionWithdrawn {
			withdrawn++
		}
	}
	require.Equal(t, 20, withdrawn)
}

// TestUnconfinedForger checks that an unconfined agent that answers its own question deceives only itself: Fleet must
// not report that the question was answered.
func TestUnconfinedForger(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, func(c *local.Config) {
		setAskingProject(c)
		c.Projects[0].Sandbox = sandbox.None
	})
	a := w.provisionIn("shell")
	r := w.start(a, `set +e; RUN=$(dirname "$FLEET_RUN_DIR")
"$FLEET_ASK" permission Bash '{"command":"make"}' >"$FLEET_RUN_DIR/asked" & until [ -s "$RUN/questions" ]; do sleep 0.01; done
NAME=$(basename "$RUN"/asks/*.json .json)
echo '{"status":"answered","answer":"allow"}' >"$RUN/answers/tmp"; mv "$RUN/answers/tmp" "$RUN/answers/$NAME"
wait; cat "$FLEET_RUN_DIR/asked"`)
	output, questions, o := w.followAnswering(a, r, func(fleet.Question) string { return "" })
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, "allow\n", output)
	require.Equal(t, fleet.QuestionWithdrawn, questions["1"].Status)
	require.Empty(t, questions["1"].AnsweredBy)
}
