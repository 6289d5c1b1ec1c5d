package cli

import (
	"fmt"
	"slices"
	"strings"
)

// longHelp returns the text of the command's help.
func (c *toolsetCommand) longHelp(commands commandFinder) string {
	parts := []string{commands.formatDescription(c.summary+". "+c.about, helpWidth)}
	if required := c.arguments(); len(required) > 0 {
		format := "Give %s as an argument, or by its flag."
		if len(required) > 1 {
			format = "Give %s as arguments in this order, or by their flags."
		} else if strings.HasSuffix(required[0], "...") {
			format = "Give %s as arguments, or by the flag."
		}
		parts = append(parts, wrapText(fmt.Sprintf(format, andList(required)), helpWidth))
	}
	if slices.ContainsFunc(c.fields, (*field).acceptsFile) {
		parts = append(parts, textHelp)
	}
	if slices.ContainsFunc(c.fields, func(f *field) bool { return f.notation == asObject }) {
		parts = append(parts, pairsHelp)
	}
	switch {
	case c.isDownload():
		parts = append(parts, "The content is written uncompressed.")
	case c.isTurn():
		parts = append(parts, turnHelp)
	}
	if c.canFail() {
		parts = append(parts, fmt.Sprintf("The exit code is %d if the request fails; see \"fleet exit-codes\" for the other codes.", ExitFailed))
	}
	if c.isTool() {
		parts = append(parts, fmt.Sprintf("AI clients call it as the tool %s at /mcp/%s.", c.toolName(), c.toolset.name))
	}
	return strings.Join(parts, "\n\n")
}

const textHelp = `Give a TEXT directly, as @FILE to read it from a file, or as - to read it from standard
input. Write \@ for a text that begins with @, and \- for a text that is only a dash.`

const pairsHelp = `KEY=VALUE can be repeated. A VALUE that is JSON, such as 0.5 or true, is read as JSON,
and any other VALUE as text. The VALUE @FILE is the content of the file, as text.
Instead of pairs, you can give a JSON object: directly, as @FILE, or as - to read it
from standard input.`

const turnHelp = `While the agent works, its messages and steps go to standard error. Its answer goes to
standard output. With -o json or yaml, add -v to see the messages and steps.`

// example returns one example of typical use, and up to three that show more.
func (c *toolsetCommand) example() string {
	line := c.commandLine()
	required := c.requiredFields()
	for _, f := range required {
		line += " " + f.exampleValue()
	}
	lines := []string{line}
	if n := len(required); n > 0 && required[n-1].acceptsFile() && required[n-1].notation == asText {
		last := required[n-1]
		lines = append(lines, strings.TrimSuffix(line, last.exampleValue())+"@"+last.flagName()+".md")
	}
	for _, in := range c.inputs {
		if in.required || in.exampleValue() == "" || in.name != in.flagName() { // the flag has another name, because every command has a flag with the name of the field
			continue
		}
		flag := " --" + in.name
		if in.notation != asBool {
			flag += " " + in.exampleValue()
		}
		lines = append(lines, line+flag)
		break
	}
	switch {
	case c.isDownload():
		lines = append(lines, line+" --"+outputFileFlag+" result.txt")
	case c.isReadOnly():
		lines = append(lines, line+" -o json")
	}
	return "  " + strings.Join(lines, "\n  ")
}

// exampleValue returns a value of the field for an example: the one in the proto, or one that suits the field's type. It
// returns "" if there is neither.
func (f *field) exampleValue() string {
	if example := shownOption(f.desc).GetExample(); example != "" {
		return example
	}
	switch f.notation {
	case asBool:
		return "true"
	case asEnum:
		return f.enumValues()[0]
	case asObject:
		if f.required {
			return "@" + f.flagName() + ".json"
		}
		return "key=value"
	}
	if f.acceptsFile() {
		return `"the ` + f.nameInSentence() + `"`
	}
	return ""
}
