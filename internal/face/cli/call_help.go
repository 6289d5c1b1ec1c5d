package cli

import (
	"fmt"
	"slices"
	"strings"
)

// long returns the text of the command's help.
func (c *call) long(names commands) string {
	parts := []string{names.describe(c.summary+". "+c.about, column)}
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
	if slices.ContainsFunc(c.fields, func(f *field) bool { return f.form == asObject }) {
		parts = append(parts, pairs)
	}
	switch {
	case c.isDownload():
		parts = append(parts, "The content is written uncompressed.")
	case c.isTurn():
		parts = append(parts, meanwhile)
	}
	if c.canFail() {
		parts = append(parts, fmt.Sprintf("The exit code is %d if the request fails; see \"fleet exit-codes\" for the others.", ExitFailed))
	}
	if c.isTool() {
		parts = append(parts, fmt.Sprintf("AI clients call it as the tool %s at /mcp/%s.", c.tool(), c.set.name))
	}
	return strings.Join(parts, "\n\n")
}

const fromElsewhere = `A TEXT is given as it is, as @FILE, or as - for standard input. Write \@ for a text
that begins with @, and \- for one that is only a dash.`

const pairs = `KEY=VALUE can be repeated. A VALUE that is JSON, such as 0.5 or true, is taken as
JSON, and any other as text; @FILE stands for the content of the file. A JSON
object can take the place of the pairs: as it is, as @FILE, or as - for standard
input.`

const meanwhile = `What the agent says and does while it works goes to standard error, and its answer
to standard output. With -o json or yaml, only -v shows what it does.`

// example returns one example of typical use, and one or two that show more.
func (c *call) example() string {
	line := c.line()
	required := c.required()
	for _, f := range required {
		line += " " + f.inExample()
	}
	lines := []string{line}
	if n := len(required); n > 0 && required[n-1].isText() && required[n-1].form == asText {
		last := required[n-1]
		lines = append(lines, strings.TrimSuffix(line, last.inExample())+"@"+last.flag()+".md")
	}
	for _, in := range c.inputs {
		if in.required || in.inExample() == "" || in.name != in.flag() { // which is a flag of every command
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

// inExample returns a value of the field for an example; empty if the proto has none and it does not follow from the type.
func (f *field) inExample() string {
	if example := shownBy(f.desc).GetExample(); example != "" {
		return example
	}
	switch f.form {
	case asBool:
		return "true"
	case asOneOf:
		return f.values()[0]
	case asObject:
		if f.required {
			return "@" + f.flag() + ".json"
		}
		return "key=value"
	}
	if f.isText() {
		return `"the ` + f.plain() + `"`
	}
	return ""
}
