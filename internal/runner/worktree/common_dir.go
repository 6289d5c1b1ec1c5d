package worktree

import (
	"os"
	"path/filepath"
	"strings"

	"fleet/internal/place/agentfile"
)

// commonDir returns the git directory that a repository shares with its worktrees. It returns an empty path if there is
// no repository.
func commonDir(repository string) string {
	common, _ := gitDirs(repository)
	return common
}

// gitDirs finds the repository that contains the directory, and returns two git directories. All worktrees of the
// repository share common. Only the worktree that contains the directory uses gitDir. The two are equal in the main
// worktree and differ in linked worktrees. Both are empty if no repository contains the directory.
func gitDirs(dir string) (common, gitDir string) {
	for dir := filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		for _, gitDir := range []string{gitDirOf(dir), dir} { // dir may be a bare repository
			common := commonOf(gitDir)
			if len(existingPaths(filepath.Join(gitDir, "HEAD"), filepath.Join(common, "objects"), filepath.Join(common, "refs"))) == 3 {
				return common, gitDir
			}
		}
		if dir == filepath.Dir(dir) {
			return "", ""
		}
	}
}

// gitDirOf returns the git directory of a working tree.
func gitDirOf(dir string) string {
	gitDir := filepath.Join(dir, ".git")
	if info, err := os.Stat(gitDir); err == nil && !info.IsDir() {
		return readGitFile(dir)
	}
	return gitDir
}

// maxPathFile limits the size of a file that names other git directories or directories of objects, in bytes.
const maxPathFile = 64 << 10

// commonOf returns the common directory of a git directory. The common directory contains refs and objects.
func commonOf(gitDir string) string {
	link, err := agentfile.Read(filepath.Join(gitDir, "commondir"), maxPathFile)
	if err != nil {
		return gitDir
	}
	common := strings.TrimSpace(string(link))
	if !filepath.IsAbs(common) {
		common = filepath.Join(gitDir, common)
	}
	return common
}

// readGitFile returns the git directory that the file .git of a working tree names. It returns an empty path if the file
// cannot be read or names no directory.
func readGitFile(dir string) string {
	link, err := agentfile.Read(filepath.Join(dir, ".git"), maxPathFile)
	if err != nil {
		return ""
	}
	to, ok := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir:")
	if to = strings.TrimSpace(to); !ok || to == "" {
		return ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	return to
}
