package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"fleet/internal/app"
	"fleet/internal/place/local"
	"fleet/internal/runner/driver"
)

// TestPictures makes the pictures of the documents, in docs/pictures. They show agents that really work. Only `make page-pictures`
// runs the test.
func TestPictures(t *testing.T) {
	if os.Getenv("FLEET_TEST_PICTURES") == "" {
		t.Skip("run make page-pictures to make the pictures of the documents")
	}
	t.Parallel()
	repository := exampleRepository(t)
	s := serve(t, func(cfg *app.Config) {
		permissions := &driver.Permissions{Allow: []string{"Bash(ls *)"}}
		roles := []local.Role{{Name: "coder", Permissions: permissions}, {Name: "reviewer", Permissions: permissions}}
		cfg.Local.Projects = []local.Project{{Name: "shop", Repository: repository, Roles: roles}, {Name: "site", Repository: repository, Roles: roles}}
	})
	for _, a := range []struct{ name, project, role, spec string }{
		{"basket", "shop", "coder", "Look after the basket: keep its tests green."},
		{"checkout", "shop", "coder", "Look after the checkout and its payments."},
		{"search", "shop", "coder", "Make the search fast."},
		{"review", "shop", "reviewer", "Review what the others change."},
		{"landing", "site", "coder", "Look after the landing page."},
		{"docs", "site", "coder", "Keep the documents true."},
	} {
		s.createAgentWith(t, a.name, a.project, a.role, a.spec)
	}
	// The tasks begin and end at different times, so that the timeline has something to show.
	// setClock sets the server's clock, and runTask runs a task from one time to another. Both times count back from now.
	setClock := func(ago time.Duration) { s.clockDelay.Store(int64(ago)) }
	runTask := func(from, to time.Duration, agent, title, script string) string {
		setClock(from)
		id := s.startTask(t, agent, "# "+title+"\nwhile ! [ -e go ]; do sleep 0.1; done; rm go\n"+script)
		setClock(to)
		s.createFile(t, agent, "go")
		s.waitForEnd(t, id)
		return id
	}
	commit := ` && git -c user.name=basket -c user.email=basket@example.com commit -qam "Round prices up to cents"`
	changed := runTask(52*time.Minute, 36*time.Minute, "basket", "Round prices up to cents, and test it", `sed -i 's/total += p.Price/total += math.Ceil(p.Price*100) \/ 100/' basket.go && sed -i 's/import "fmt"/import (\n\t"fmt"\n\t"math"\n)/' basket.go
echo "ok   shop/basket   0.214s"`+commit)
	runTask(35*time.Minute, 30*time.Minute, "docs", "Check the links of all documents", "echo '214 links, all of them work'")
	runTask(29*time.Minute, 22*time.Minute, "search", "Measure the search with 10,000 products", "echo 'p95 48 ms'; echo 'the index does not fit into memory' >&2; exit 1")
	setClock(21 * time.Minute)
	s.startTask(t, "checkout", "# Replace the payment library\necho 'reading the code'; \"$FLEET_ASK\" permission Bash '{\"command\":\"go get example.com/payments@v2\"}'")
	setClock(14 * time.Minute)
	s.startTask(t, "review", "# Review the last ten commits\nfor i in 1 2 3; do printf '\\033[32mok\\033[0m   commit %s\\n' $i; done; \"$FLEET_ASK\" question 'Commit 4 removes a public function. Keep it?' 'keep it' 'remove it'")
	setClock(8 * time.Minute)
	running := s.startTask(t, "landing", `# Make the pictures of the landing page smaller
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf 'picture %02d  \033[33m%s kB\033[0m -> \033[32m%s kB\033[0m\n' $i $((i * 37 + 410)) $((i * 9 + 60)); sleep 0.2; done; sleep 600`)

	b := openAt(t, s.home, "/")
	b.waitForText("6 agents")
	b.waitForText("waiting 2")
	setClock(0)
	for _, p := range []struct{ name, path, text, open string }{
		{"fleet", "/", "6 agents", ""},
		{"timeline", "/?view=timeline", "Review the last ten commits", ""},
		{"attention", "/attention", "Commit 4 removes", ""},
		{"output", "/tasks/" + running + "?view=output", "picture 12", ""},
		{"changes", "/tasks/" + changed + "?view=changes", "1 file", "math.Ceil"},
	} {
		b.run(chromedp.EmulateViewport(1100, 700))
		b.goTo(p.path)
		b.waitForText(p.text)
		if p.open != "" {
			eval[bool](b, `document.querySelectorAll('main details').forEach(d => { d.open = d.querySelector('code') !== null }), true`)
			b.waitForText(p.open)
		}
		for _, scheme := range []string{"light", "dark"} {
			b.setColorScheme(scheme)
			small := reduceColors(t, result(b, chromedp.CaptureScreenshot()))
			require.Less(t, len(small), 150_000, p.name)
			dir := filepath.Join("..", "..", "..", "docs", "pictures")
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, p.name+"-"+scheme+".png"), small, 0o644))
		}
		b.savePictures("demo-"+p.name, 400, 1280, 2560)
	}
}

// reduceColors reduces the PNG to its 128 most frequent colors. The file becomes a few times smaller.
func reduceColors(t *testing.T, data []byte) []byte {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	counts, box := map[color.NRGBA]int{}, picture.Bounds()
	at := func(x, y int) color.NRGBA { return color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA) } //nolint:forcetypeassert // the model of the type
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	colors := make([]color.NRGBA, 0, len(counts))
	for c := range counts {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.NRGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var p color.Palette
	for _, c := range colors[:min(len(colors), 128)] {
		p = append(p, c)
	}
	nearest := map[color.NRGBA]uint8{}
	for _, c := range colors {
		nearest[c] = uint8(p.Index(c)) //nolint:gosec // less than 128
	}
	small := image.NewPaletted(box, p)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small))
	return b.Bytes()
}
