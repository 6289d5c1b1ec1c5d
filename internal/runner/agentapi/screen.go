package agentapi

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// minWidth is the minimum width of a screen, in columns. Lines that are padded to less do not show the width of the screen.
const minWidth = 40

// screenLines returns the lines of an agent's message as they were before the screen drew them: without padding, with broken
// lines joined, and without control characters except tabs.
func screenLines(content string) []string {
	raw := strings.Split(strings.ReplaceAll(content, "\r", ""), "\n")
	width := screenWidth(raw)
	lines := make([]string, 0, len(raw))
	broken := false
	for _, r := range raw {
		line := strings.TrimRightFunc(strings.Map(dropControl, r), unicode.IsSpace)
		if broken && line != "" {
			lines[len(lines)-1] += line
		} else {
			lines = append(lines, line)
		}
		broken = width > 0 && runewidth.StringWidth(line) == width
	}
	return trimBlank(lines)
}

// screenWidth returns the width to which the lines are padded, or 0 if the lines are not padded.
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

// dropControl is a mapping for strings.Map. It drops control characters except tabs.
func dropControl(r rune) rune {
	if unicode.IsControl(r) && r != '\t' {
		return -1
	}
	return r
}

// trimBlank removes empty lines at both ends.
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
	// progressPattern matches a line that shows progress and changes all the time.
	progressPattern = regexp.MustCompile(`^\s*[✻✽✶✳✢·∗*\x{2800}-\x{28FF}|/\\-]\s+\S.*(…|\.\.\.|\d+/\d+)`)
	// answerEndPattern matches the line with which Claude Code ends an answer.
	answerEndPattern = regexp.MustCompile(`^\s*[✻✽✶✳✢∗*]\s+\p{L}+ for \d+.*$`)
	// stepPattern matches Claude Code's lines about tool calls.
	stepPattern = regexp.MustCompile(`^\s*([●⏺]\s+[A-Z][\w .:-]*\(|⎿)`)
	// bulletPattern matches the start of a paragraph of Claude Code.
	bulletPattern = regexp.MustCompile(`^[●⏺]\s+`)
	// interruptedPattern matches the line with which an agent's program reports an interrupt. Only the mark, the user, and a question
	// or request to the user may surround the words, so that it does not match a sentence or a list in an answer.
	interruptedPattern = regexp.MustCompile(`(?i)^\s*[⎿└■●⏺✗✘⚠\[]?\s*(request |conversation |turn )?(was )?interrupted( by (the )?user( for tool use)?)?(\W*$|\s+[·–—-]\s+(what|tell)\b)`)
)

func isProgress(line string) bool {
	return strings.Contains(line, " to interrupt") || progressPattern.MatchString(line)
}

// progressSearchLines is the number of lines at the end of a screen in which progressLine looks for a progress line.
const progressSearchLines = 6

// progressLine returns the index of the progress line, or -1 if the end of the screen has none.
func progressLine(lines []string) int {
	for i := max(0, len(lines)-progressSearchLines); i < len(lines); i++ {
		if isProgress(lines[i]) {
			return i
		}
	}
	return -1
}

// progressText returns the text of a progress line. key identifies the activity: it has the letters before the parenthesis with
// the time and the tokens, which change all the time.
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

// finalLines returns the lines of a complete message, without the status lines at its end.
func finalLines(lines []string) []string {
	lines = slices.Clone(lines)
	for len(lines) > 0 && (answerEndPattern.MatchString(lines[len(lines)-1]) || strings.Contains(lines[len(lines)-1], " to interrupt")) {
		lines = trimBlank(lines[:len(lines)-1])
	}
	return lines
}

// showsInterrupt reports whether one of the last three lines that are not blank reports an interrupt.
func showsInterrupt(lines []string) bool {
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

// lastText returns the agent's last text: the last paragraph that is not a tool call if the agent's program marks paragraphs, and
// otherwise all lines.
func lastText(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if !bulletPattern.MatchString(lines[i]) || stepPattern.MatchString(lines[i]) {
			continue
		}
		text := slices.Clone(lines[i:])
		text[0] = bulletPattern.ReplaceAllString(text[0], "")
		for j := range text[1:] {
			if stepPattern.MatchString(text[j+1]) {
				text = text[:j+1]
				break
			}
			text[j+1] = strings.TrimPrefix(text[j+1], "  ")
		}
		return strings.TrimSpace(strings.Join(text, "\n"))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
