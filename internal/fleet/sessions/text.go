package sessions

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// colors are the control sequences with which programs color their output for a terminal.
var colors = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// text is all that the agent answered: its payload, when the summary is a part of it. That is so of a long answer, whose
// summary is the beginning, and of a program, whose summary is the last line that it put out. Otherwise the agent has
// reported a summary beside data, and the summary is the answer.
func (s *Service) text(ctx context.Context, t *fleet.Task) (string, error) {
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
	whole = colors.ReplaceAllString(whole, "")
	if part := strings.TrimSuffix(t.Summary, "…"); !strings.Contains(whole, part) {
		return t.Summary, nil
	}
	return strings.TrimRight(whole, "\r\n"), nil
}
