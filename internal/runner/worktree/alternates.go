package worktree

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/place/agentfile"
)

// maxAlternates limits the number of object directories whose list of alternates is read.
const maxAlternates = 100

// withAlternates returns an object directory, its alternates, their alternates, and so on, up to maxAlternates lists.
func withAlternates(objects string) []string {
	all := []string{objects}
	for i := 0; i < len(all) && i < maxAlternates; i++ {
		list, err := agentfile.Read(filepath.Join(all[i], "info", "alternates"), maxPathFile)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(list)) {
			dir := strings.TrimSuffix(line, "\n")
			if plain, err := strconv.Unquote(dir); err == nil && strings.HasPrefix(dir, `"`) {
				dir = plain
			}
			if dir == "" || dir[0] == '#' {
				continue
			}
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(all[i], dir)
			}
			if dir = filepath.Clean(dir); !slices.Contains(all, dir) {
				all = append(all, dir)
			}
		}
	}
	return all
}

// ReadableDirs returns the directories of the repository that agents must be able to read.
func ReadableDirs(repository string) []string {
	common := commonDir(repository)
	if common == "" {
		return nil
	}
	return append([]string{common}, withAlternates(filepath.Join(common, "objects"))...)
}

// formatAlternates returns the content of info/alternates for the directories.
func formatAlternates(dirs []string) string {
	var b strings.Builder
	for _, dir := range dirs {
		if strings.ContainsAny(dir, "\"\\\n") || strings.HasPrefix(dir, "#") {
			dir = strconv.Quote(dir)
		}
		b.WriteString(dir + "\n")
	}
	return b.String()
}
