package cli

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestAnswerFindsAnOldQuestion checks that "answer ID" finds a question that is not on the first page of the open questions.
func TestAnswerFindsAnOldQuestion(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	s.answers = make(chan *fleetv1.AnswerQuestionRequest, 1)
	for i := range 101 {
		s.addQuestion(&fleetv1.Question{Id: fmt.Sprintf("q-%03d", i), Kind: fleetv1.Question_question, Text: fmt.Sprintf("question %d?", i)})
	}
	screen, keys, wait := runOnTerminal(t, server, "", "answer", "q-000")
	screen.await(t, "papi asks: question 0?")
	screen.await(t, "Answer: ")
	typeKeys(t, keys, "yes\n")
	require.Equal(t, ExitOK, wait(), screen.String())
	require.Equal(t, "yes", (<-s.answers).GetAnswer())
}
