"""The size of a text in tokens, without a tokeniser."""

import pytest

from tasuki.draft.text.split import count_tokens


@pytest.mark.parametrize(
    ("text", "o200k", "claude"),
    [
        ("すべてのテストは通りますが、ビルドはまだ失敗します。設定ファイルには絶対に触らないでください。", 33, 44),
        ("所有测试都通过了，但是构建仍然失败。不要碰配置文件，也不要在没有我允许的情况下推送。", 28, 36),
        ("모든 테스트가 통과하지만 빌드는 여전히 실패합니다. 설정 파일은 절대 건드리지 말고 푸시하지 마세요.", 32, 58),
        ("Все тесты проходят, но сборка по-прежнему не работает. Не трогай файл конфигурации.", 24, 44),
    ],
)  # fmt: skip
def test_other_scripts_take_more_tokens(text: str, o200k: int, claude: int) -> None:
    """The estimate is between what public tokenisers count, where characters / 4 is far below."""
    assert len(text) / 4 < o200k
    assert 0.9 * o200k <= count_tokens(text) <= 1.35 * claude


def test_english_takes_four_characters_a_token() -> None:
    """Rounded up; nothing takes nothing."""
    assert [count_tokens(text) for text in ("", "a", "word", "words")] == [0, 1, 1, 2]
