package record

import "fleet/internal/fleet"

// ScanAttachment reads a row with the name, the media type, the size and the content of an attachment. The content may be NULL.
func ScanAttachment(row Scanner) (a fleet.Attachment, err error) {
	return a, row.Scan(&a.Name, &a.MediaType, &a.Size, &a.Content)
}
