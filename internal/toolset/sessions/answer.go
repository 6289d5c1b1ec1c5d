package sessions

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"fleet/internal/fleet"
	"fleet/internal/toolset/conversation"
)

// Answer is an agent's answer to a message.
type Answer struct {
	Text     string
	Contents []Content             // what the agent did last, see recentContents
	Warnings conversation.Warnings // what did not work during the turn, without repetitions
	TaskID   string
	Duration time.Duration // from the call to the answer
	Usage    fleet.Usage
	CostUSD  float64
}

const (
	maxContents     = 1000    // maximum number of contents of an answer
	maxContentsSize = 1 << 20 // maximum size of all contents of an answer, in bytes
)

// answer waits for the end of the turn and returns the agent's answer. It returns an error if the turn fails. If sink is
// not nil, answer passes each Content to it. An error of sink means that the caller has disconnected, and ends the wait.
// startedAt is the time of the call.
func (s *Service) answer(ctx context.Context, t *fleet.Task, requestID string, startedAt time.Time, sink func(Content) error) (*Answer, error) {
	a := &Answer{TaskID: t.ID}
	recent := &recentContents{}
	s.addWaitingCall(ctx, t.ID, requestID)
	var sinkErr error // the sink's error, which means that the caller has disconnected
	defer func() { s.removeWaitingCall(ctx, t.ID, requestID, sinkErr != nil || ctx.Err() != nil) }()
	agentName, err := s.speakerName(ctx, t)
	if err != nil {
		return nil, err
	}
	ended, err := s.core.FollowTask(ctx, t.ID, 0, func(e fleet.Event) error {
		c, ok := contentOf(e)
		if !ok {
			return nil
		}
		if c.Agent == "" {
			c.Agent = agentName
		}
		recent.add(c)
		a.Warnings.Add(c.Warning)
		if sink == nil {
			return nil
		}
		sinkErr = sink(c)
		return sinkErr
	})
	if err != nil {
		return nil, err
	}
	if ended.Status != fleet.TaskCompleted {
		return nil, turnError(ended)
	}
	if a.Text, err = s.answerText(ctx, ended); err != nil {
		return nil, err
	}
	a.Contents, a.Usage, a.CostUSD = recent.all, ended.Usage, ended.CostUSD
	a.Duration = max(s.cfg.Now().Sub(startedAt), 0)
	return a, nil
}

// recentContents keeps the last contents, at most maxContents of them and maxContentsSize bytes. It keeps the last one even
// if that one alone is larger.
type recentContents struct {
	all  []Content
	size int
}

func (r *recentContents) add(c Content) {
	r.all = append(r.all, c)
	r.size += contentSize(c)
	for len(r.all) > maxContents || r.size > maxContentsSize && len(r.all) > 1 {
		r.size -= contentSize(r.all[0])
		r.all = r.all[1:]
	}
}

func contentSize(c Content) int {
	n := len(c.Tool) + len(c.Arguments) + len(c.Message) + len(c.Warning)
	if c.Result != nil {
		n += len(c.Result.Text)
	}
	return n
}

// turnError returns the error for a turn that has ended without an answer.
func turnError(t *fleet.Task) error {
	reason, text := conversation.Failure(t)
	return fleet.Errorf(reason, "the agent %s", text).With("task_id", t.ID).With("agent_name", t.AgentName)
}

// colorPattern matches terminal control sequences. Programs use them mostly to color their output.
var colorPattern = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// answerText returns the agent's complete answer to the task. If the payload is text that contains the summary, the answer
// is the payload: the summary is then only the beginning of a long answer, or the last line of a program's output.
// Otherwise the payload is data that the agent reported besides its answer, and the answer is the summary.
func (s *Service) answerText(ctx context.Context, t *fleet.Task) (string, error) {
	if t.PayloadSize == 0 {
		return t.Summary, nil
	}
	payload, err := s.core.Payload(ctx, t.ID)
	if err != nil {
		return "", err
	}
	text := string(payload)
	if gap := t.PayloadGap; gap.Size > 0 && gap.Offset >= 0 && gap.Offset <= len(payload) {
		text = fmt.Sprintf("%s\n[%d bytes are missing here]\n%s",
			strings.ToValidUTF8(text[:gap.Offset], ""), gap.Size, strings.ToValidUTF8(text[gap.Offset:], ""))
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return t.Summary, nil
	}
	text = colorPattern.ReplaceAllString(text, "")
	if part := strings.TrimSuffix(t.Summary, "…"); !strings.Contains(text, part) {
		return t.Summary, nil
	}
	return strings.TrimRight(text, "\r\n"), nil
}
