package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// long returns the text of the command's help.
func (c *call) long(names commands) string {
	text := strings.TrimSuffix(c.summary, ".") + ". " + c.about
	parts := []string{wrap(names.describe(text), column)}
	if required := c.arguments(); len(required) > 0 {
		how := "Give %s as an argument, or by its flag."
		if len(required) > 1 {
			how = "Give %s as arguments in this order, or by their flags."
		} else if strings.HasSuffix(required[0], "...") {
			how = "Give %s as arguments, or by the flag."
		}
		parts = append(parts, wrap(fmt.Sprintf(how, andList(required)), column))
	}
	if slices.ContainsFunc(c.fields, (*field).isText) {
		parts = append(parts, fromElsewhere)
	}
	if slices.ContainsFunc(c.fields, func(f *field) bool { return f.form == asObject || f.form == asTextPair }) {
		parts = append(parts, pairs)
	}
	switch {
	case c.isDownload():
		parts = append(parts, "What is written is as it was before its compression.")
	case c.isTurn():
		parts = append(parts, `What comes before the answer is told on standard error, and the answer goes to
standard output. With -o json or yaml it is told only with -v.`)
	}
	if c.isTool() {
		parts = append(parts, fmt.Sprintf("For AI clients it is the tool %s at /mcp/%s.", c.tool(), c.set.name))
	}
	return strings.Join(parts, "\n\n")
}

const fromElsewhere = `A TEXT can also be in a file, as @FILE, or come from standard input, as -.
To begin a text with @, write \@; a text that is only a dash is \-.`

const pairs = `KEY=VALUE can be given several times; a value that is JSON, such as 0.5 or true,
is that, and others are texts. As VALUE, @FILE is what is in the file. Instead of
pairs, a JSON object does, as it is, as @FILE, or from standard input as -.`

// example returns one example of typical use, and one or two that show more.
func (c *call) example() string {
	line := c.line()
	required := c.required()
	for _, f := range required {
		line += " " + f.inExample()
	}
	lines := []string{line}
	if n := len(required); n > 0 && required[n-1].isText() && required[n-1].form == asWords {
		last := required[n-1]
		lines = append(lines, strings.TrimSuffix(line, last.inExample())+"@"+last.flag()+".md")
	}
	for _, in := range c.inputs {
		if in.required || in.isRequestID() || in.name != in.flag() { // which is a flag of every command
			continue
		}
		flag := " --" + in.name
		if in.form != asBool {
			flag += " " + in.inExample()
		}
		lines = append(lines, line+flag)
		break
	}
	switch {
	case c.isDownload():
		lines = append(lines, line+" --"+contentFlag+" result.txt")
	case c.reads():
		lines = append(lines, line+" -o json")
	}
	return "  " + strings.Join(lines, "\n  ")
}

// quoted matches quoted parts of a text.
var quoted = regexp.MustCompile(`"([^" ]+)"`)

// inExample returns a value of the field for an example: one that its description names, or a typical one.
func (f *field) inExample() string {
	switch f.form {
	case asNumber:
		return "10"
	case asOneOf:
		return f.values()[0]
	case asObject, asTextPair, asJSON:
		if f.required || f.desc.IsList() {
			return "@" + f.flag() + ".json"
		}
		return "key=value"
	}
	if m := quoted.FindStringSubmatch(f.about); m != nil && !f.isText() {
		return m[1]
	}
	switch {
	case f.isText():
		return `"the ` + f.plain() + `"`
	case strings.HasSuffix(string(f.desc.Name()), "_id"), strings.HasSuffix(string(f.desc.Name()), "_ids"):
		return "3f2a..."
	}
	return "NAME"
}
