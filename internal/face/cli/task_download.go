package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskDownload() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "download ID",
		Short: "Download the payload of a task, of any size",
		Long: `Download the payload of a task, which is its whole result, byte for byte: to
standard output, or with -o to a file.

An interrupted download leaves FILE.part, and the same command continues it. FILE
appears when the whole payload has arrived and its SHA-256 matches.`,
		Example: `  fleet task download 3f2a... -o result.tar
  fleet task download 3f2a... | less`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			if err := checkOutputFile(file); err != nil {
				return err
			}
			d := &taskDownload{session: s, id: args[0]}
			if info, err := os.Stat(file); file == "" || file == "-" || err == nil && !info.Mode().IsRegular() { // a terminal or a pipe
				return s.save(d.reader(ctx, 0), file)
			}
			n, err := d.saveResumable(ctx, file)
			if err == nil {
				s.note("Wrote %s to %s.", sizeText(n), file)
			}
			return downloadError(err)
		}),
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to `FILE` instead of standard output")
	return cmd
}

// taskDownload is the download of the payload of one task.
type taskDownload struct {
	*session
	id string
}

// saveResumable writes the payload to FILE.part, and renames that file to FILE when it is complete. It returns the payload's size. If the
// download is interrupted, FILE.part stays, and the next call continues it.
func (d *taskDownload) saveResumable(ctx context.Context, file string) (int64, error) {
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o666) //nolint:gosec // as os.Create
	if err != nil {
		return 0, usagef("cannot write the file: %v", err)
	}
	n, err := d.resume(ctx, f)
	if e := f.Close(); err == nil {
		err = e
	}
	switch info, statErr := os.Stat(part); {
	case err == nil:
		return n, os.Rename(part, file)
	case errors.Is(err, errDamaged) || statErr == nil && info.Size() == 0:
		_ = os.Remove(part) // the first error is the one that matters
		return 0, err
	}
	d.note("What has arrived is in %s: the same command continues from there.", part)
	return 0, err
}

// resume appends to f the part of the payload that f lacks, and returns the payload's size. It starts over if the content of f is not the
// beginning of the payload.
func (d *taskDownload) resume(ctx context.Context, f *os.File) (int64, error) {
	sum := sha256.New()
	existingSize, err := io.Copy(sum, f)
	if err != nil {
		return 0, err
	}
	rest := d.reader(ctx, existingSize)
	rest.sum = sum
	n, err := io.Copy(f, rest)
	if err == nil || existingSize == 0 || !errors.Is(err, errDamaged) && !isInvalid(err, "offset") { // offset is invalid if the payload has fewer bytes than f
		return existingSize + n, err
	}
	d.note("%s is not the beginning of this payload; downloading all of it.", f.Name())
	if err := f.Truncate(0); err != nil {
		return 0, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	return d.resume(ctx, f)
}

// reader returns a reader of the payload from the offset on. If the connection breaks, the reader requests the rest.
func (d *taskDownload) reader(ctx context.Context, offset int64) *downloadReader {
	req := &fleetv1.DownloadTaskPayloadRequest{TaskId: d.id, Offset: offset}
	return d.newDownloadReader(ctx, fleetv1.FleetService_DownloadTaskPayload_FullMethodName, req, func(m proto.Message) {
		body, _ := m.(*httpbody.HttpBody)
		req.Offset += int64(len(body.GetData()))
	})
}
