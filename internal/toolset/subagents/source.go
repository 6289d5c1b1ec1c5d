package subagents

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// These are the files of a definition with a directory of its own.
const (
	agentFile  = "agent.md"
	memoryFile = "memory.md"
)

// maxLevels is how deep below the directory of definitions a file may be, since collections of agent files are sorted
// into folders.
const maxLevels = 3

// source is a file that may define a subagent.
type source struct {
	file   string // path within the directory of definitions
	memory string // path of its memory.md; empty if it has none
	name   string // name of its directory or, for a flat file, its name without .md
	flat   bool   // NAME.md, as in Claude Code, instead of NAME/agent.md
}

func directorySource(dir string) source {
	return source{file: path.Join(dir, agentFile), memory: path.Join(dir, memoryFile), name: path.Base(dir)}
}

// findSources returns the files that may define subagents, ordered by path: first every NAME/agent.md, then every other
// .md file. It skips hidden entries and the main agent's directory.
func findSources(root *os.Root) ([]source, error) {
	directories, flat, err := walkSources(root, ".", maxLevels)
	return append(directories, flat...), err
}

func walkSources(root *os.Root, dir string, levels int) (directories, flat []source, err error) {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || at == Main {
			continue
		}
		name, isMarkdown := strings.CutSuffix(e.Name(), ".md")
		switch {
		case e.IsDir() || e.Type()&fs.ModeSymlink != 0 && !isMarkdown:
			src := directorySource(at)
			if _, err := look(root, src.file); !errors.Is(err, fs.ErrNotExist) {
				directories = append(directories, src)
				continue
			}
			if levels == 1 || !e.IsDir() {
				continue
			}
			// An unreadable folder does not hide the others.
			below, flatBelow, _ := walkSources(root, at, levels-1)
			directories, flat = append(directories, below...), append(flat, flatBelow...)
		case isMarkdown:
			flat = append(flat, source{file: at, name: name, flat: true})
		}
	}
	return directories, flat, nil
}

// hasFrontmatter reports whether a file begins with frontmatter.
func hasFrontmatter(data []byte) bool {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	first, _, _ := bytes.Cut(bytes.TrimLeft(data, "\r\n"), []byte("\n"))
	return string(bytes.TrimRight(first, " \t\r")) == "---"
}
