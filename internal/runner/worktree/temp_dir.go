package worktree

import (
	"path/filepath"

	"fleet/internal/scratch"
)

// Sweep removes the temporary files that killed processes have left in the repository.
func Sweep(repository string) error {
	common := commonDir(repository)
	if common == "" {
		return nil
	}
	return scratch.Sweep(tempDir(common))
}

// tempDir returns the directory for temporary files on the disk of the repository with the common git directory. Git LFS uses
// it too.
func tempDir(common string) string { return filepath.Join(common, "lfs", "tmp") }
