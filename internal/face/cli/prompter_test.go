package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// addQuestion makes papi ask the question in the task task-1.
func (s *stub) addQuestion(q *fleetv1.Question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.TaskId, q.AgentName, q.Status = "task-1", "papi", fleetv1.Question_waiting
	s.questions = append(s.questions, q)
	s.addEvent(fleetv1.Event_task_question, "papi", "task-1", "may it?", "")
}

// ListQuestions lists the open questions, newest first, in pages of 100. The cursor of a page is the number of questions before it.
func (s *stub) ListQuestions(_ context.Context, r *fleetv1.ListQuestionsRequest) (*fleetv1.ListQuestionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &fleetv1.ListQuestionsResponse{}
	for _, q := range slices.Backward(s.questions) {
		if q.GetStatus() == fleetv1.Question_waiting {
			resp.Questions = append(resp.Questions, proto.CloneOf(q))
		}
	}
	from, _ := strconv.Atoi(r.GetCursor())
	if resp.Questions = resp.Questions[from:]; len(resp.Questions) > 100 {
		resp.Questions, resp.NextCursor = resp.Questions[:100], proto.String(strconv.Itoa(from+100))
	}
	return resp, nil
}

func (s *stub) AnswerQuestion(_ context.Context, r *fleetv1.AnswerQuestionRequest) (*fleetv1.AnswerQuestionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.questions {
		if q.GetId() == r.GetQuestionId() {
			q.Status = fleetv1.Question_answered
			s.addEvent(fleetv1.Event_task_answer, "papi", "task-1", r.GetAnswer(), "")
			s.answers <- r
		}
	}
	return &fleetv1.AnswerQuestionResponse{}, nil
}

// TestQuestionsInPlace checks that the person can answer questions with single keys on a terminal that follows the task.
func TestQuestionsInPlace(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"task", "run", "papi", "--follow"}, {"task", "logs", "task-1", "--follow"}} {
		t.Run(command[1], func(t *testing.T) {
			t.Parallel()
			s, server, _ := stubWithAgent(t)
			s.answers = make(chan *fleetv1.AnswerQuestionRequest, 1)
			s.agents["papi"].Location = "/work/papi"
			gate, open := newGate(t)
			task := "echo one; read x < " + gate
			if command[1] == "run" {
				command = slices.Insert(command, 3, task)
			} else {
				mustRun(t, server, "task", "run", "papi", task)
			}
			screen, keys, wait := runOnTerminal(t, server, "1m", command...)
			nextAnswer := func() (answer string, remember fleetv1.Question_Remember) {
				select {
				case r := <-s.answers:
					return r.GetAnswer(), r.GetRemember()
				case <-time.After(waittest.Limit):
					require.Fail(t, "no answer", screen.String())
				}
				return "", 0
			}
			screen.await(t, "one\r\n")
			input, err := structpb.NewStruct(map[string]any{"command": "make clean"})
			require.NoError(t, err)
			s.addQuestion(&fleetv1.Question{Id: "q-1", Kind: fleetv1.Question_permission, Tool: "Bash", Input: input, Rules: []string{"Bash(make *)"}})
			screen.await(t, "papi asks: Bash: make clean (in /work/papi)")
			screen.await(t, "a and A allow Bash(make *)")
			screen.await(t, "? allow? y (once), n, a (in this task)")
			typeKeys(t, keys, "x")
			typeKeys(t, keys, "a")
			answer, remember := nextAnswer()
			require.Equal(t, "allow", answer)
			require.Equal(t, fleetv1.Question_task, remember)

			s.addQuestion(&fleetv1.Question{Id: "q-2", Kind: fleetv1.Question_question, Text: "Tabs or spaces?", Options: []string{"Tabs", "Spaces"}})
			screen.await(t, "  2  Spaces")
			screen.await(t, "? 1 to 2")
			typeKeys(t, keys, "2")
			answer, _ = nextAnswer()
			require.Equal(t, "Spaces", answer)

			// A question that somebody else answers disappears, and keys that were pressed for it have no effect.
			s.addQuestion(&fleetv1.Question{Id: "q-3", Kind: fleetv1.Question_question, Text: "Which?", Options: []string{"A", "B", "C"}})
			screen.await(t, "? 1 to 3")
			_, err = s.AnswerQuestion(t.Context(), &fleetv1.AnswerQuestionRequest{QuestionId: "q-3", Answer: "A"})
			require.NoError(t, err)
			nextAnswer()
			screen.await(t, "> A")
			waittest.Until(t, "the terminal echoes typed text again", func() bool {
				state, err := unix.IoctlGetTermios(int(keys.Fd()), getTermios)
				return err == nil && state.Lflag&unix.ECHO != 0
			})
			countBefore := strings.Count(screen.String(), "y")
			typeKeys(t, keys, "y")
			waittest.Until(t, "the terminal echoes the key", func() bool { return strings.Count(screen.String(), "y") > countBefore })
			s.addQuestion(&fleetv1.Question{Id: "q-4", Kind: fleetv1.Question_permission, Tool: "Read"})
			screen.await(t, "y (once), n\x1b[")
			typeKeys(t, keys, "n")
			answer, _ = nextAnswer()
			require.Equal(t, "deny", answer)
			open()
			require.Equal(t, ExitOK, wait(), screen.String())
		})
	}
}

// TestReadKeysGoesOnAfterCtrlD checks that Ctrl-D, which ends a read of the terminal while no question is open, does not end the reader.
func TestReadKeysGoesOnAfterCtrlD(t *testing.T) {
	t.Parallel()
	person, tty, err := pty.Open()
	require.NoError(t, err)
	defer tty.Close()
	keys := make(chan key)
	go readKeys(tty, keys)
	typeKeys(t, person, "a\n\x04b\n")
	for _, want := range "a\nb\n" {
		select {
		case k := <-keys:
			require.Equal(t, byte(want), k.char)
		case <-time.After(waittest.Limit):
			require.Fail(t, "the reader has ended")
		}
	}
	require.NoError(t, person.Close()) // the read fails, and the reader ends
}
