"""How well `tasuki.draft.text.split` estimates: its counts beside those of public tokenisers, by kind of text.

    npm install gpt-tokenizer @anthropic-ai/tokenizer       in FOLDER, which the registry reaches
    python bench/tokens.py FOLDER TEXT…                     files of text, each a row

No figure of a brief depends on these programs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from tasuki.draft.text.split import count_tokens  # noqa: E402

SAMPLES = {
    "English": "All tests pass, but the build still fails. Leave the configuration alone and never push without my permission. ",
    "German": "Alle Tests laufen durch, aber der Build schlägt weiterhin fehl. Fass die Konfiguration nicht an. ",
    "Russian": "Все тесты проходят, но сборка по-прежнему не работает. Не трогай файл конфигурации. ",
    "Arabic": "جميع الاختبارات ناجحة لكن البناء ما زال معطلا. لا تلمس ملف الإعدادات أبدا. ",
    "Korean": "모든 테스트가 통과하지만 빌드는 여전히 실패합니다. 설정 파일은 절대 건드리지 말고 푸시하지 마세요. ",
    "Japanese": "すべてのテストは通りますが、ビルドはまだ失敗します。設定ファイルには絶対に触らないでください。",
    "Chinese": "所有测试都通过了，但是构建仍然失败。不要碰配置文件，也不要在没有我允许的情况下推送。",
    "Thai": "การทดสอบทั้งหมดผ่านแต่การสร้างยังล้มเหลว ห้ามแตะไฟล์การตั้งค่า ",
    "code": (ROOT / "src/tasuki/draft/text/split.py").read_text(),
}
SCRIPT = """
import fs from 'fs'; import {encode as o} from 'gpt-tokenizer/encoding/o200k_base';
import {encode as c} from 'gpt-tokenizer/encoding/cl100k_base'; import {countTokens} from '@anthropic-ai/tokenizer';
const texts = JSON.parse(fs.readFileSync(0)); console.log(JSON.stringify(texts.map(t => [o(t).length, c(t).length, countTokens(t)])));
"""


def main() -> None:
    """Prints a row for each text: characters, and the estimate over each count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the two packages are installed")
    parser.add_argument("texts", nargs="*", type=Path)
    given = parser.parse_args()
    texts = {name: text * (2_000 // len(text) + 1) for name, text in SAMPLES.items()}
    texts |= {path.name: path.read_text() for path in given.texts}
    script = given.folder / "count.mjs"
    script.write_text(SCRIPT)
    shown = subprocess.run(
        ["node", script.name], cwd=given.folder, input=json.dumps(list(texts.values())),
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    print("| text | characters a token (estimate) | / o200k | / cl100k | / Claude 2 |")
    print("|---|---|---|---|---|")
    for (name, text), counts in zip(texts.items(), json.loads(shown), strict=True):
        mine = count_tokens(text)
        shares = " | ".join(f"{mine / count:.2f}" for count in counts)
        print(f"| {name} | {len(text) / mine:.2f} | {shares} |")


if __name__ == "__main__":
    main()
