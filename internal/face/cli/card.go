package cli

import "strings"

// card shows one thing in detail: a label and a value per line, with multi-line texts indented below.
type card struct {
	b     strings.Builder
	width int // of the label column in characters, if a label is longer than labelWidth
}

const labelWidth = 14

func (c *card) line(label, value string) {
	if value != "" && value != "-" {
		c.b.WriteString(label + strings.Repeat(" ", max(1, max(c.width, labelWidth)-len(label))) + value + "\n")
	}
}

func (c *card) text(label, value string) {
	value = strings.TrimRight(value, "\n")
	if !strings.Contains(value, "\n") {
		c.line(label, value)
		return
	}
	c.b.WriteString(label + "\n")
	for line := range strings.SplitSeq(value, "\n") {
		c.b.WriteString("  " + line + "\n")
	}
}
