package rho

import "strconv"

// Context is what a call brings along beside its arguments, and where a handler leaves what goes beside its answer.
// What the host did not tell is empty.
type Context struct {
	CallID    string
	SessionID string
	RequestID string
	Values    map[string]any

	images  []image
	details any
	told    bool
}

type image struct {
	MimeType string `rho:"mime_type"`
	Data     []byte `rho:"data"`
}

// AddImage puts a png, jpeg, webp or gif beside the answer, for the model. At most 16 of them, on success only.
func (ctx *Context) AddImage(mimeType string, data []byte) {
	ctx.images = append(ctx.images, image{mimeType, data})
}

// SetDetails puts something beside an answer or a failure that goes to the host's screens, never to the model.
func (ctx *Context) SetDetails(details any) { ctx.details, ctx.told = details, true }

func (ctx *Context) withDetails(answer map[string]any) map[string]any {
	if ctx.told {
		answer["details"] = ctx.details
	}
	return answer
}

// Levels of [Log], as in Python's logging.
const (
	LevelDebug   = 10
	LevelInfo    = 20
	LevelWarning = 30
	LevelError   = 40
)

// Log writes a line to the call's log. What is printed otherwise goes there as well: os.Stdout as info, os.Stderr (and
// so print, println and package log) as warnings.
func Log(level int, text string) { log(level, toUTF8(text)) }

// Debug, Info, Warning and Error write to the call's log.
func (ctx *Context) Debug(text string)   { Log(LevelDebug, text) }
func (ctx *Context) Info(text string)    { Log(LevelInfo, text) }
func (ctx *Context) Warning(text string) { Log(LevelWarning, text) }
func (ctx *Context) Error(text string)   { Log(LevelError, text) }

// Progress says in the call's log how far it is. A total of 0 is not known.
func (ctx *Context) Progress(done, total float64, text string) {
	line := "progress: " + strconv.FormatFloat(done, 'g', -1, 64)
	if total != 0 {
		line += " of " + strconv.FormatFloat(total, 'g', -1, 64)
	}
	if text != "" {
		line += " " + text
	}
	Log(LevelInfo, line)
}
