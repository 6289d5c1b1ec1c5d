package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
			var form format
			if form.Set(file) == nil {
				return usagef("-o names a file in this command, not a format: write ./%s for a file with that name", file)
			}
			d := &taskDownload{session: s, id: args[0]}
			if file == "" || file == "-" {
				return d.print(ctx)
			}
			n, err := d.save(ctx, file)
			if err == nil {
				s.note("Wrote %s to %s.", size(n), file)
			}
			return err
		}),
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to `FILE` instead of standard output")
	return cmd
}

// taskDownload downloads the payload of a task.
type taskDownload struct {
	*session
	id  string
	sum hash.Hash // of the part of the payload that has arrived
}

// print writes the payload to standard output.
func (d *taskDownload) print(ctx context.Context) error {
	w := &outputWriter{screen: d.screen}
	d.sum = sha256.New()
	from := d.from(ctx, 0)
	_, err := io.Copy(io.MultiWriter(w, d.sum), from)
	w.flush()
	if d.screen.failed() != nil {
		return d.screen.failed()
	}
	if err == nil && !d.whole(from.info) {
		err = errGarbled
	}
	return broke(err)
}

// save writes the payload to the file through a temporary file whose name ends in .part. It returns the payload's size.
func (d *taskDownload) save(ctx context.Context, file string) (int64, error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() { // a terminal or a pipe
		from := d.from(ctx, 0)
		d.sum = sha256.New()
		n, err := writeFile(file, io.TeeReader(from, d.sum))
		if err == nil && !d.whole(from.info) {
			err = errGarbled
		}
		return n, broke(err)
	}
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o666) //nolint:gosec // as os.Create
	if err != nil {
		return 0, usagef("cannot write the file: %v", err)
	}
	n, err := d.resume(ctx, f)
	if e := f.Close(); err == nil {
		err = e
	}
	switch left, statErr := os.Stat(part); {
	case err == nil:
		return n, os.Rename(part, file)
	case errors.Is(err, errGarbled) || statErr == nil && left.Size() == 0:
		_ = os.Remove(part) // the first error is the one that matters
		return 0, broke(err)
	}
	d.note("What has arrived is in %s: the same command continues from there.", part)
	return 0, broke(err)
}

// resume downloads the part of the payload that the file lacks. It starts over if the file is not the beginning of the
// payload.
func (d *taskDownload) resume(ctx context.Context, f *os.File) (int64, error) {
	d.sum = sha256.New()
	have, err := io.Copy(d.sum, f)
	if err != nil {
		return 0, err
	}
	from := d.from(ctx, have)
	n, err := io.Copy(io.MultiWriter(f, d.sum), from)
	switch {
	case err == nil && d.whole(from.info):
		return have + n, nil
	case have > 0 && (err == nil || status.Code(err) == codes.InvalidArgument): // the payload has fewer bytes
	case err != nil:
		return 0, err
	default:
		return 0, errGarbled
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

// errGarbled means that the downloaded data differs from the server's.
var errGarbled = Fail(ExitError, "download it again", "the content is damaged: its SHA-256 is not the one that the server sent")

// whole reports whether the downloaded data has the payload's checksum. If the server sent no checksum, it returns
// true.
func (d *taskDownload) whole(info *fleetv1.PayloadInfo) bool {
	return info == nil || hex.EncodeToString(d.sum.Sum(nil)) == info.GetSha256()
}

var bodyType = (&httpbody.HttpBody{}).ProtoReflect().Type()

// from returns a reader of the payload from the offset on. If the connection breaks, the reader continues where it
// stopped.
func (d *taskDownload) from(ctx context.Context, offset int64) *pieces {
	req := &fleetv1.DownloadTaskPayloadRequest{TaskId: d.id, Offset: offset}
	return &pieces{next: d.calls.receive(ctx, fleetv1.FleetService_DownloadTaskPayload_FullMethodName, req, bodyType, func(m proto.Message) {
		body, _ := m.(*httpbody.HttpBody)
		req.Offset += int64(len(body.GetData()))
	})}
}
