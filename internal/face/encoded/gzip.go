package encoded

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipPacker is a compressor and its buffer, which calls use one after the other.
type gzipPacker struct {
	b bytes.Buffer
	z *gzip.Writer
}

var gzipPackers = sync.Pool{New: func() any {
	p := &gzipPacker{}
	p.z, _ = gzip.NewWriterLevel(&p.b, gzip.BestSpeed) // the level is valid
	return p
}}

// Gzip returns the data compressed by gzip.
func Gzip(data []byte) []byte {
	p, _ := gzipPackers.Get().(*gzipPacker)
	defer gzipPackers.Put(p)
	p.b.Reset()
	p.z.Reset(&p.b)
	_, _ = p.z.Write(data) // a buffer takes everything
	_ = p.z.Close()
	return bytes.Clone(p.b.Bytes())
}
