package cli

import (
	"regexp"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
)

// apiWord matches a text in quotes, or a word that can be a name of the API, such as task_description.
var apiWord = regexp.MustCompile(`"[^"]*"|[A-Za-z0-9_./=-]*[A-Za-z0-9]`)

// translateForPeople returns a message of the server in which commands replace tools. Flags of the running command, or plain
// words, replace fields. Texts in quotes stay as they are. details are the details of the error, or nil if the message is not
// an error.
func (p *program) translateForPeople(set *toolset, message string, details map[string]any) string {
	if !strings.Contains(message, "_") {
		return message
	}
	commands := p.commandsFor(set)
	return apiWord.ReplaceAllStringFunc(message, func(word string) string {
		switch {
		case !strings.Contains(word, "_"), word[0] == '"':
			return word
		case fieldNames()[word]:
			if flag := p.runningFlagFor(word); flag != "" {
				return "--" + flag
			}
			return strings.ReplaceAll(word, "_", " ")
		case commands.hasCommand(word):
			return commands.quotedCommand(word, details)
		}
		return word
	})
}

// hasCommand reports whether a command calls the tool.
func (c commandFinder) hasCommand(tool string) bool {
	_, ok := c.byTool[tool]
	return ok
}

// runningFlagFor returns the flag of the running command that sets the field, or "". The flag has the field's name, its words
// without the first or the last one (--max-cost sets max_cost_usd), or the name in irregularFlags.
func (p *program) runningFlagFor(field string) string {
	if p.runningCmd == nil {
		return ""
	}
	name := flagNameOf(field)
	_, withoutFirstWord, _ := strings.Cut(name, "-")
	for _, flag := range []string{name, name[:strings.LastIndex(name, "-")], withoutFirstWord, irregularFlags[field]} {
		if flag != "" && p.runningCmd.LocalFlags().Lookup(flag) != nil {
			return flag
		}
	}
	return ""
}

// irregularFlags maps fields to flags whose names share no word with them.
var irregularFlags = map[string]string{"depends_on": "after"}

// fieldNames returns the names of request fields that consist of several words.
var fieldNames = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	forEachMethod(func(m protoreflect.MethodDescriptor) {
		for f := range itemsOf(m.Input().Fields()) {
			if name := string(f.Name()); strings.Contains(name, "_") {
				names[name] = true
			}
		}
	})
	return names
})

// forEachMethod calls f for every method of the API.
func forEachMethod(f func(m protoreflect.MethodDescriptor)) {
	protoregistry.GlobalFiles.RangeFilesByPackage(fleetv1.File_fleet_v1_options_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for s := range itemsOf(file.Services()) {
			for m := range itemsOf(s.Methods()) {
				f(m)
			}
		}
		return true
	})
}
