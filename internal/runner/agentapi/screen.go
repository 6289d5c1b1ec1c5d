package agentapi

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// minWidth is the narrowest screen that is taken for one.
const minWidth = 40

// screenLines are the lines of a message of the agent as they were before its screen made them its own: without the
// padding to the screen's width, and with lines put together again that were broken there.
func screenLines(content string) []string {
	raw := strings.Split(strings.ReplaceAll(content, "\r", ""), "\n")
	width := screenWidth(raw)
	lines := make([]string, 0, len(raw))
	broken := false
	for _, r := range raw {
		line := strings.TrimRightFunc(strings.Map(visible, r), unicode.IsSpace)
		if broken && line != "" {
			lines[len(lines)-1] += line
		} else {
			lines = append(lines, line)
		}
		broken = width > 0 && runewidth.StringWidth(line) == width
	}
	return trimBlank(lines)
}

// screenWidth is the width that the lines are padded to; 0 when they are not.
func screenWidth(lines []string) int {
	width, padded := 0, false
	for _, line := range lines {
		switch w := runewidth.StringWidth(line); {
		case w > width:
			width, padded = w, strings.HasSuffix(line, " ")
		case w == width && strings.HasSuffix(line, " "):
			padded = true
		}
	}
	if !padded || width < minWidth {
		return 0
	}
	return width
}

// visible drops characters that control a terminal.
func visible(r rune) rune {
	if unicode.IsControl(r) && r != '\t' {
		return -1
	}
	return r
}

// trimBlank removes blank lines at both ends.
func trimBlank(lines []string) []string {
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

var (
	// progressPattern finds a line that only says that the agent is at work, and changes all the time.
	progressPattern = regexp.MustCompile(`^\s*[✻✽✶✳✢·∗*\x{2800}-\x{28FF}|/\\-]\s+\S.*(…|\.\.\.|\d+/\d+)`)
	// restPattern finds the line that Claude Code ends an answer with.
	restPattern = regexp.MustCompile(`^\s*[✻✽✶✳✢∗*]\s+\p{L}+ for \d+.*$`)
	// stepPattern finds lines about a tool that the agent uses, as Claude Code shows it.
	stepPattern = regexp.MustCompile(`^\s*([●⏺]\s+[A-Z][\w .:-]*\(|⎿)`)
	// bulletPattern finds the beginning of what Claude Code says or does.
	bulletPattern = regexp.MustCompile(`^[●⏺]\s+`)
	// interruptedPattern finds the line by which an agent says that it was interrupted.
	interruptedPattern = regexp.MustCompile(`(?i)^\W*(request |conversation |turn )?(was )?interrupted\b`)
)

func isProgress(line string) bool {
	return strings.Contains(line, " to interrupt") || progressPattern.MatchString(line)
}

// nearEnd is how many lines at the end of a screen may belong to a line about progress.
const nearEnd = 6

// progress returns where the line about progress is; -1 when the screen shows none.
func progress(lines []string) int {
	for i := max(0, len(lines)-nearEnd); i < len(lines); i++ {
		if isProgress(lines[i]) {
			return i
		}
	}
	return -1
}

// progressText is a line about progress as it is shown, and what of it stays the same.
func progressText(line string) (text, key string) {
	text = strings.TrimFunc(line, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("….()", r)
	})
	key = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, strings.SplitN(text, "(", 2)[0])
	return text, key
}

// finalLines are the lines of a message that changes no more.
func finalLines(lines []string) []string {
	lines = slices.Clone(lines)
	for len(lines) > 0 && (restPattern.MatchString(lines[len(lines)-1]) || strings.Contains(lines[len(lines)-1], " to interrupt")) {
		lines = trimBlank(lines[:len(lines)-1])
	}
	return lines
}

// wasInterrupted reports whether the screen ends with the word that the agent was interrupted.
func wasInterrupted(lines []string) bool {
	for n := 0; n < 3 && len(lines) > 0; {
		line := lines[len(lines)-1]
		lines = lines[:len(lines)-1]
		if strings.TrimSpace(line) == "" {
			continue
		}
		if interruptedPattern.MatchString(line) {
			return true
		}
		n++
	}
	return false
}

// lastWords are what the agent said last: the last of its paragraphs where its program marks them, else all of it.
func lastWords(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if !bulletPattern.MatchString(lines[i]) || stepPattern.MatchString(lines[i]) {
			continue
		}
		words := slices.Clone(lines[i:])
		words[0] = bulletPattern.ReplaceAllString(words[0], "")
		for j := range words[1:] {
			if stepPattern.MatchString(words[j+1]) {
				words = words[:j+1]
				break
			}
			words[j+1] = strings.TrimPrefix(words[j+1], "  ")
		}
		return strings.TrimSpace(strings.Join(words, "\n"))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
