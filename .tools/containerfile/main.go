// Command containerfile checks container files with BuildKit's parser and linter. It fails if there are errors or warnings.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	failed := false
	for _, path := range os.Args[1:] {
		if err := check(path, func(text string) {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %s\n", path, text)
		}); err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %s\n", path, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}

// check parses the container file at path. It calls warn for each warning of the parser and of the linter. It returns an error if
// the file cannot be read or parsed.
func check(path string, warn func(text string)) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.Parse(bytes.NewReader(content))
	if err != nil {
		return err
	}
	for _, w := range file.Warnings {
		warn(w.Short)
	}
	_, _, err = instructions.Parse(file.AST, linter.New(&linter.Config{
		Warn: func(rule, _, _, text string, at []parser.Range) {
			warn(fmt.Sprintf("line %d: %s: %s", at[0].Start.Line, rule, text))
		},
	}))
	return err
}
