/** Attachment is a file for a task, as the API takes it. */
export interface Attachment {
  name: string
  media_type?: string
  content: string // base64
}

const most = 20 * 2 ** 20 // the server refuses more, but only after it has read all of it

/** attach reads the files. It throws an error if they are too large for a task. */
export async function attach(files: File[]): Promise<Attachment[]> {
  if (files.reduce((sum, f) => sum + f.size, 0) > most) {
    throw new Error('The files are larger than 20 MiB together: attach fewer, or smaller ones.')
  }
  return Promise.all(
    files.map(async (f) => ({ name: f.name, ...(f.type ? { media_type: f.type } : {}), content: await base64(f) })),
  )
}

function base64(file: File): Promise<string> {
  return new Promise((done, failed) => {
    const reader = new FileReader()
    reader.onload = () => done((reader.result as string).split(',', 2)[1] ?? '')
    reader.onerror = () => failed(new Error(`The file ${file.name} cannot be read.`))
    reader.readAsDataURL(file)
  })
}
