package driver

import (
	"fmt"
	"path/filepath"

	"fleet/internal/runner/claude"
)

// WithAttachments returns the job with the paths of its attachments in the prompt, unless the prompt is a script.
func WithAttachments(d Driver, j Job) Job {
	if _, script := d.(shell); script || len(j.Attachments) == 0 {
		return j
	}
	j.Prompt += "\n\nThese files belong to the task. You can read them until it ends:\n"
	for _, a := range j.Attachments {
		j.Prompt += fmt.Sprintf("\n- %s (%s)", a.Path, a.MediaType)
	}
	return j
}

// maxImage is the size of the largest image that the model's API accepts from Claude Code, in bytes.
const maxImage = 3750 << 10

// imageAttachments returns the attachments that a message to Claude Code can contain.
func imageAttachments(j Job) (all []claude.Image) {
	for _, a := range j.Attachments {
		switch a.MediaType {
		case "image/png", "image/jpeg", "image/gif", "image/webp":
			if a.Size <= maxImage {
				all = append(all, claude.Image{Path: a.Path, MediaType: a.MediaType})
			}
		}
	}
	return all
}

// attachmentsDir returns the directory of the attachments, or "" if there are none.
func attachmentsDir(j Job) string {
	if len(j.Attachments) == 0 {
		return ""
	}
	return filepath.Dir(j.Attachments[0].Path)
}
