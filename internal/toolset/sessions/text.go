package sessions

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// colorPattern matches the control sequences with which programs color terminal output.
var colorPattern = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// answerText returns the agent's complete answer to the task. If the payload contains the summary, the answer is the payload,
// because then the summary is only the beginning of a long answer or the last line of a program's output. Otherwise the
// payload is data that the agent reported besides its answer, and the answer is the summary.
func (s *Service) answerText(ctx context.Context, t *fleet.Task) (string, error) {
	if t.PayloadSize == 0 {
		return t.Summary, nil
	}
	payload, err := s.core.Payload(ctx, t.ID)
	if err != nil {
		return "", err
	}
	whole := string(payload)
	if gap := t.PayloadGap; gap.Size > 0 && gap.Offset >= 0 && gap.Offset <= len(payload) {
		whole = fmt.Sprintf("%s\n[%d bytes are missing here]\n%s",
			strings.ToValidUTF8(whole[:gap.Offset], ""), gap.Size, strings.ToValidUTF8(whole[gap.Offset:], ""))
	}
	if !utf8.ValidString(whole) || strings.ContainsRune(whole, 0) {
		return t.Summary, nil
	}
	whole = colorPattern.ReplaceAllString(whole, "")
	if part := strings.TrimSuffix(t.Summary, "…"); !strings.Contains(whole, part) {
		return t.Summary, nil
	}
	return strings.TrimRight(whole, "\r\n"), nil
}
