package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Attachment is a file for a task.
type Attachment struct {
	Name      string // a plain name, without directories
	MediaType string
	Size      int
	Content   []byte // nil if it was not read
}

// Limits of the attachments of a task.
const (
	MaxAttachments     = 20
	MaxAttachmentsSize = 20 << 20 // in bytes, together
	maxAttachmentName  = 255      // in bytes
	maxMediaTypePart   = 61       // in bytes, of the type or the subtype
)

const attachmentNameHint = "give a plain name such as notes.txt, with at most 255 bytes, and without directories, control characters and a dot at the beginning"

var mediaTypePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*$`)

func isMediaType(s string) bool {
	kind, subtype, _ := strings.Cut(s, "/")
	return mediaTypePattern.MatchString(s) && len(kind) <= maxMediaTypePart && len(subtype) <= maxMediaTypePart
}

// CheckAttachments returns INVALID_ARGUMENT if the attachments cannot be files of one directory, or exceed a limit.
func CheckAttachments(all []Attachment) error {
	refuse := func(format string, args ...any) error {
		return InvalidField(OptionAttachments, format, args...)
	}
	if len(all) > MaxAttachments {
		return refuse("attachments has %d files: give at most %d", len(all), MaxAttachments)
	}
	names, size := map[string]bool{}, 0
	for _, a := range all {
		key := strings.ToLower(a.Name) // some file systems ignore the case
		switch {
		case !isPlainFileName(a.Name):
			return refuse("attachments has a file with the name %q: %s", Shorten(a.Name, 60), attachmentNameHint)
		case names[key]:
			return refuse("attachments has two files with the name %q: rename one", a.Name)
		case !isMediaType(a.MediaType):
			return refuse("attachments has %q with the media_type %q: give one such as image/png, or leave it out", a.Name, Shorten(a.MediaType, 60))
		case len(a.Content) == 0:
			return refuse("attachments has %q without content: leave it out", a.Name)
		}
		names[key] = true
		if size += len(a.Content); size > MaxAttachmentsSize {
			return refuse("attachments have more than %d MiB together: attach less, or put large files where the agent can read them", MaxAttachmentsSize>>20)
		}
	}
	return nil
}

// isPlainFileName reports whether a file can safely have the name: it has no directories and is not hidden, for example.
func isPlainFileName(name string) bool {
	unsafe := func(r rune) bool { return r == '/' || r == '\\' || r == utf8.RuneError || unicode.IsControl(r) }
	return name != "" && len(name) <= maxAttachmentName && name[0] != '.' && utf8.ValidString(name) && !strings.ContainsFunc(name, unsafe)
}

// Digest returns the name, the media type and the SHA-256 of the content. Two attachments with equal digests are the same, so
// that a repeated request can be recognised without the contents.
func (a Attachment) Digest() [3]string {
	sum := sha256.Sum256(a.Content)
	return [3]string{a.Name, a.MediaType, hex.EncodeToString(sum[:])}
}
