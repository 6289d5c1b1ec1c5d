package subagents

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// These are the names of the files in the directory of a definition.
const (
	agentFile  = "agent.md"
	memoryFile = "memory.md"
)

// maxLevels is the number of directory levels that are searched, including the directory of definitions itself.
// Collections of agent files are often sorted into folders.
const maxLevels = 3

// source is a file that may define a subagent.
type source struct {
	file         string // path within the directory of definitions
	memory       string // path of its memory.md; empty if it has none
	name         string // name of its directory or, if isSingleFile is set, the file's name without .md
	isSingleFile bool   // the definition is the file NAME.md, as in Claude Code, not NAME/agent.md
}

// directorySource returns the source of the definition in the directory dir.
func directorySource(dir string) source {
	return source{file: path.Join(dir, agentFile), memory: path.Join(dir, memoryFile), name: path.Base(dir)}
}

// findSources returns the files that may define subagents: first every NAME/agent.md, then every other .md file. Both
// parts are in the order of a directory walk. It skips hidden entries, and main at the top
// level.
func findSources(root *os.Root) ([]source, error) {
	directories, singleFiles, err := walkSources(root, ".", maxLevels)
	return append(directories, singleFiles...), err
}

// walkSources returns the files in dir that may define subagents. It searches the given number of directory levels,
// including dir.
func walkSources(root *os.Root, dir string, levels int) (directories, singleFiles []source, err error) {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		entryPath := path.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || entryPath == MainCaller {
			continue
		}
		name, isMarkdown := strings.CutSuffix(e.Name(), ".md")
		switch {
		case e.IsDir() || e.Type()&fs.ModeSymlink != 0 && !isMarkdown:
			src := directorySource(entryPath)
			if _, err := statFile(root, src.file); !errors.Is(err, fs.ErrNotExist) {
				directories = append(directories, src)
				continue
			}
			if levels == 1 || !e.IsDir() {
				continue
			}
			// Ignore the error, so that one unreadable folder does not make the whole search fail.
			below, singleFilesBelow, _ := walkSources(root, entryPath, levels-1)
			directories, singleFiles = append(directories, below...), append(singleFiles, singleFilesBelow...)
		case isMarkdown:
			singleFiles = append(singleFiles, source{file: entryPath, name: name, isSingleFile: true})
		}
	}
	return directories, singleFiles, nil
}

// hasFrontmatter reports whether a file begins with frontmatter.
func hasFrontmatter(data []byte) bool {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	first, _, _ := bytes.Cut(bytes.TrimLeft(data, "\r\n"), []byte("\n"))
	return string(bytes.TrimRight(first, " \t\r")) == "---"
}
