package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// cell is one field of a table.
type cell struct {
	text  string
	color color
}

// grid is a table for people. Its last column takes the remaining width of the terminal.
type grid struct {
	head []string
	rows [][]cell
	skip []bool // for each column, whether the table leaves it out
	name int    // the column that --quiet prints
}

func newGrid(head ...string) *grid { return &grid{head: head, skip: make([]bool, len(head))} }

// column adds a column, or leaves it out of all rows.
func (g *grid) column(name string, shown bool) {
	if shown {
		g.head = append(g.head, name)
	}
	g.skip = append(g.skip, !shown)
}

// row adds a row of texts, cells, numbers, booleans and values of enums, one for each column.
func (g *grid) row(fields ...any) {
	row := make([]cell, 0, len(fields))
	for i, f := range fields {
		if g.skip[i] {
			continue
		}
		switch f := f.(type) {
		case cell:
			row = append(row, cellOf(f))
		case protoreflect.Enum:
			row = append(row, statusCell(f))
		case int32:
			row = append(row, cell{text: strconv.Itoa(int(f))})
		case bool:
			row = append(row, cellOf(cell{text: map[bool]string{true: "yes"}[f]}))
		case string:
			row = append(row, cellOf(cell{text: f}))
		}
	}
	g.rows = append(g.rows, row)
}

// cellOf returns the cell with a text that is safe on a terminal, or "-" if it has no text.
func cellOf(c cell) cell {
	if c.text = printable(c.text); c.text == "" {
		c.text = "-"
	}
	return c
}

// statusCell returns the cell of an enum's value, in its colour.
func statusCell(e protoreflect.Enum) cell {
	return cell{string(e.Descriptor().Values().ByNumber(e.Number()).Name()), colorOf(e)}
}

const gap = 2

// wideColumn is the width above which a column makes the columns after it hard to find.
const wideColumn = 30

// lastWidth is the smallest width of the last column.
const lastWidth = 12

// render formats the table for a terminal of the width, in columns. 0 means an unlimited width. With colour the heading
// is bold.
func (g *grid) render(width int, color bool) string {
	widths := g.widths()
	last := len(widths) - 1
	if width > 0 {
		rest := width
		for _, w := range widths[:last] {
			rest -= w + gap
		}
		widths[last] = min(widths[last], max(rest, lastWidth))
	}
	var b strings.Builder
	head := make([]cell, len(g.head))
	for i, h := range g.head {
		head[i] = cell{h, bold}
	}
	for _, row := range append([][]cell{head}, g.rows...) {
		for i, c := range row {
			text := c.text
			if i == last {
				if width > 0 {
					text = truncate(text, widths[last])
				}
				b.WriteString(paint(color, c.color, text))
				break
			}
			b.WriteString(paint(color, c.color, text))
			b.WriteString(strings.Repeat(" ", widths[i]+gap-runewidth.StringWidth(text)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// fit moves a wide column to the end, where it can be shortened, and removes columns until the rest fits the width. It
// returns the headings of the removed columns.
func (g *grid) fit(width int) (left []string) {
	if len(g.rows) == 0 || len(g.head) < 2 {
		return nil
	}
	for {
		widths, total := g.widths(), 0
		widest := len(widths) - 1
		for i, w := range widths {
			if i > 0 && w > widths[widest] {
				widest = i
			}
			total += w + gap
		}
		fits := width == 0 || total-gap <= width
		if fits && widths[widest] <= wideColumn {
			return left
		}
		g.move(widest)
		if fits || len(g.head) <= 2 || total-widths[widest]+lastWidth <= width {
			return left
		}
		second := len(g.head) - 2
		widths = g.widths()
		for i := 1; i < second; i++ {
			if widths[i] > widths[second] {
				second = i
			}
		}
		left = append(left, g.head[second])
		g.take(second)
	}
}

func (g *grid) widths() []int {
	widths := make([]int, len(g.head))
	for i, h := range g.head {
		widths[i] = runewidth.StringWidth(h)
	}
	for _, row := range g.rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c.text))
		}
	}
	return widths
}

// move moves column i to the end.
func (g *grid) move(i int) {
	head := g.head[i]
	g.head = append(slices.Delete(g.head, i, i+1), head)
	for r, row := range g.rows {
		c := row[i]
		g.rows[r] = append(slices.Delete(row, i, i+1), c)
	}
}

// take removes column i.
func (g *grid) take(i int) {
	g.head = slices.Delete(g.head, i, i+1)
	for r, row := range g.rows {
		g.rows[r] = slices.Delete(row, i, i+1)
	}
}

// names returns the texts of the first column, one a line.
func (g *grid) names() string {
	var b strings.Builder
	for _, row := range g.rows {
		b.WriteString(row[g.name].text + "\n")
	}
	return b.String()
}

// truncate shortens a text to a width in columns.
func truncate(s string, width int) string {
	if runewidth.StringWidth(s) <= width {
		return s
	}
	return runewidth.Truncate(s, width, "…")
}

// show prints a table. With -q it prints only the names. For an empty table it prints a hint.
func (s *session) show(g *grid, none string) {
	switch {
	case s.quiet:
		s.screen.print(g.names())
	case len(g.rows) == 0:
		s.hint("%s", none)
	default:
		s.screen.print(g.render(s.screen.onOut.width(), s.screen.onOut.colored(s.noColor)))
	}
}
